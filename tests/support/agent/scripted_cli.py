"""A coding CLI that does what a script says: `scripted_cli.py FOLDER PROMPT_FILE`.

FOLDER/script.json has a list of actions for `planner`, `qa` and each step; each call takes the next one, and
the last one is repeated. Without a script it plans three steps, and writes a file for each. Each call appends
a line to FOLDER/calls.log. Of the standard library only: it runs with a chosen environment.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HANG_SEC = 3600.0


def plan(steps: int = 3) -> dict[str, Any]:
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


def main(folder: Path, prompt_file: str) -> int:
    role, step = os.environ["AIFLOW_ROLE"], os.environ.get("AIFLOW_STEP") or ""
    name = step or role
    log = folder / "calls.log"
    with log.open("a") as file:
        file.write(f"{name} {os.getpid()} {os.getcwd()}\n")
    script = json.loads((folder / "script.json").read_text()) if (folder / "script.json").exists() else {}
    actions = script.get(name) or script.get("*") or [{}]
    calls = [line.split(" ")[0] for line in log.read_text().splitlines()].count(name)
    (folder / f"prompt-{name}-{calls}.md").write_text(Path(prompt_file).read_text())
    return act(actions[min(calls, len(actions)) - 1], role, step, folder)


def act(action: dict[str, Any], role: str, step: str, folder: Path) -> int:
    for line in action.get("say", ["\x1b[31mworking\x1b[0m <script>alert(1)</script>"]):
        say(line)
    written = action.get("write", {} if role == "planner" else {f"{step or role}.txt": step})
    for name, text in written.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"{text}\n")
    if "run" in action:
        subprocess.run(action["run"], check=True)
    if "environment" in action:
        (folder / "environment.json").write_text(json.dumps(dict(os.environ)))
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


def misbehave(action: dict[str, Any], folder: Path) -> None:
    if action.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if action.get("detach"):
        # A process of its own session that keeps editing.
        child = "import time\nwhile True:\n open('detached.txt','a').write('x'); time.sleep(0.05)"
        started = subprocess.Popen([sys.executable, "-c", child], start_new_session=True, close_fds=False)
        (folder / "detached.pid").write_text(str(started.pid))
    if action.get("hang"):
        (folder / "hangs").write_text(str(os.getpid()))
        time.sleep(HANG_SEC)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
