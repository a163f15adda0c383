/** Commands for a terminal, as they are shown for copying. */

/** Characters that a shell reads as they are. */
const PLAIN = /^[\w@%+=:,./-]+$/;

/** A text as one word of a shell, which expands nothing in it. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A command of pyoco-client with the gateway of this page; workers and operators connect to NATS instead. */
export function withServer(command: string, server: string = location.origin): string {
  const found = /^pyoco-client(?=\s)(?! --server\s)/.exec(command);
  if (!found) return command;
  return `${found[0]} --server ${PLAIN.test(server) ? server : quoted(server)}${command.slice(found[0].length)}`;
}
