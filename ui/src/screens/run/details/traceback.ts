/** A Python traceback split into frames. */
const FRAME = /^ {2}File "/;
const FOREIGN =
  /^ {2}File "(<frozen |.*([/\\](site|dist)-packages[/\\]|[/\\]pyoco_server[/\\]|[/\\]lib[/\\]python3))/;

export interface Piece {
  lines: string[];
  kind: "text" | "own" | "foreign";
}

export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  for (const line of text.trimEnd().split("\n")) {
    const last = pieces.at(-1);
    if (FRAME.test(line)) pieces.push({ lines: [line], kind: FOREIGN.test(line) ? "foreign" : "own" });
    else if (last && (last.kind === "text" || line.startsWith("    "))) last.lines.push(line);
    else pieces.push({ lines: [line], kind: "text" });
  }
  return pieces;
}

/** Without the frames of libraries, unless there are no others. */
export function ownPieces(pieces: readonly Piece[]): readonly Piece[] {
  return pieces.some((each) => each.kind === "own")
    ? pieces.filter((each) => each.kind !== "foreign")
    : pieces;
}
