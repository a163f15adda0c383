import { expect, it } from "vitest";
import { withServer, workerCommand } from "./commands";

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

const SETUP = "pyoco-worker --flows ./flows --nats-url nats://10.0.0.5:4222";

it.each([
  ["of this installation", SETUP, undefined, SETUP],
  ["with the tag last", SETUP, "gpu", `${SETUP} --tag gpu`],
  ["with no other tag", `${SETUP} --tag plant`, "gpu", `${SETUP} --tag gpu`],
  ["of an unknown address", undefined, "gpu", "pyoco-worker --flows ./flows --tag gpu"],
  ["of an unknown address and any tag", undefined, undefined, "pyoco-worker --flows ./flows"],
])("shows one command for a worker: %s", (_, setup, tag, expected) =>
  expect(workerCommand(setup, tag)).toBe(expected),
);
