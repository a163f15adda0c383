"""A coding CLI that does what a script says: `scripted_cli.py FOLDER PROMPT_FILE`.

FOLDER/script.json has a list of actions for `planner`, `qa` and each step; each call takes the next one, and
the last one is repeated. Without a script it plans three steps, and writes a file for each. Each call appends
a line to FOLDER/calls.log. Of the standard library only: it runs with a chosen environment.

It is started hundreds of times, so it uses neither pathlib nor subprocess, whose imports take longer than its
work.
"""

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HANG_SEC = 3600.0


def plan(steps: int = 3) -> "dict[str, Any]":
    return {
        "acceptance": ["AC1: every step has its file"],
        "steps": [
            {
                "id": f"S{number:02d}",
                "title": f"Write file {number}",
                "objective": "the file exists",
                "scope": f"S{number:02d}.txt",
                "done": ["the file exists", "it has a line"],
                "tests": ["the file is read"],
                "links": ["AC1"],
                "commit": f"feat: write file {number}",
            }
            for number in range(1, steps + 1)
        ],
    }


def block(value: object) -> str:
    return f"```aiflow\n{json.dumps(value)}\n```"


def main(folder: str, prompt_file: str) -> int:
    role, step = os.environ["AIFLOW_ROLE"], os.environ.get("AIFLOW_STEP") or ""
    name = step or role
    append(f"{folder}/calls.log", f"{name} {os.getpid()} {os.getcwd()}\n")
    has_script = os.path.exists(f"{folder}/script.json")
    script = json.loads(read(f"{folder}/script.json")) if has_script else {}
    actions = script.get(name) or script.get("*") or [{}]
    calls = [line.split(" ")[0] for line in read(f"{folder}/calls.log").splitlines()].count(name)
    write(f"{folder}/prompt-{name}-{calls}.md", read(prompt_file))
    return act(actions[min(calls, len(actions)) - 1], role, step, folder)


def act(action: "dict[str, Any]", role: str, step: str, folder: str) -> int:
    for line in action.get("say", ["\x1b[31mworking\x1b[0m <script>alert(1)</script>"]):
        say(line)
    written = action.get("write", {} if role == "planner" else {f"{step or role}.txt": step})
    for name, text in written.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        write(name, f"{text}\n")
    if "run" in action:
        assert os.spawnvp(os.P_WAIT, action["run"][0], action["run"]) == 0, action["run"]
    if "environment" in action:
        write(f"{folder}/environment.json", json.dumps(dict(os.environ)))
    for _ in range(action.get("print_bytes", 0) // 100):
        sys.stdout.write("x" * 99 + "\n")
    time.sleep(action.get("pause", 0))
    misbehave(action, folder)
    if "question" in action:
        say(block({"question": action["question"]}))
    elif role == "planner":
        say(block({"plan": action.get("plan", plan())}))
    elif action.get("summary", "done") is not None:
        say(block({"summary": action.get("summary", "done")}))
    return int(action.get("exit", 0))


def misbehave(action: "dict[str, Any]", folder: str) -> None:
    if action.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if action.get("detach"):
        # A process of its own session that keeps editing.
        child = "import time\nwhile True:\n open('detached.txt','a').write('x'); time.sleep(0.05)"
        pid = os.posix_spawn(sys.executable, [sys.executable, "-c", child], os.environ, setsid=True)
        write(f"{folder}/detached.pid", str(pid))
    if action.get("hang"):
        write(f"{folder}/hangs", str(os.getpid()))
        time.sleep(HANG_SEC)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def append(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
