/** Commands for a terminal, as they are shown for copying. */

/** Characters that a shell reads as they are. */
const PLAIN = /^[\w@%+=:,./-]+$/;

/** A text as one word of a shell, which expands nothing in it. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const START_WORKER = "pyoco-worker --flows ./flows";

/** How to start a worker, of a tag if there is one; `setup` is the command of this installation, if known. */
export function workerCommand(setup: string = START_WORKER, tag?: string): string {
  return tag === undefined ? setup : `${setup.replace(/ --tag \S+$/, "")} --tag ${tag}`;
}

/** A command of pyoco-client with the gateway of this page; workers and operators connect to NATS instead. */
export function withServer(command: string, server: string = location.origin): string {
  const found = /^pyoco-client(?=\s)(?! --server\s)/.exec(command);
  if (!found) return command;
  return `${found[0]} --server ${PLAIN.test(server) ? server : quoted(server)}${command.slice(found[0].length)}`;
}
