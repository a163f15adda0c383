import { expect, it } from "vitest";
import { withServer } from "./commands";

const SERVER = "https://pyoco.example:8443";

it.each([
  ["pyoco-client cancel ab12", `pyoco-client --server ${SERVER} cancel ab12`],
  [`pyoco-client --server ${SERVER} list`, `pyoco-client --server ${SERVER} list`],
  ["pyoco-worker --flows ./flows", "pyoco-worker --flows ./flows"],
  ["pyoco-server-admin unreadable", "pyoco-server-admin unreadable"],
  ["npm install -g pyoco-client x", "npm install -g pyoco-client x"],
])("names the gateway in commands of the client only: %s", (command, expected) =>
  expect(withServer(command, SERVER)).toBe(expected),
);

it("takes the gateway of this page", () => {
  expect(withServer("pyoco-client list")).toBe(`pyoco-client --server ${location.origin} list`);
});

it("quotes an unusual address", () => {
  expect(withServer("pyoco-client list", "http://[::1]:8000")).toBe(
    "pyoco-client --server 'http://[::1]:8000' list",
  );
});
