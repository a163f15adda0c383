/** Text of the document, in which only `code` is marked. */
export function Marked({ text }: { text: string }) {
  return text.split("`").map((piece, at) =>
    at % 2 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a text do not change.
      <code key={at}>{piece}</code>
    ) : (
      piece
    ),
  );
}
