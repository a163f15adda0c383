"""A coding CLI that does what a script says: `scripted_cli.py FOLDER PROMPT_FILE`.

FOLDER/script.json has a list of actions for `planner`, `qa` and each step; each call takes the next one, and
the last one is repeated. Without a script it plans three steps, and writes a file for each. Each call appends a
line to FOLDER/calls.log. Of the standard library only: it runs with a chosen environment.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HANG_SEC = 3600.0


def plan(steps: int = 3) -> dict[str, object]:
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


def act(action: dict[str, object], role: str, step: str, folder: Path) -> int:
    for line in action.get("say", ["\x1b[31mworking\x1b[0m <script>alert(1)</script>"]):  # type: ignore[attr-defined]
        print(line, flush=True)
    for name, text in dict(
        action.get("write", {} if role == "planner" else {f"{step or role}.txt": step})
    ).items():  # type: ignore[call-overload]
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(f"{text}\n")
    if "run" in action:
        subprocess.run(action["run"], check=True)  # type: ignore[call-overload]
    if "print_bytes" in action:
        line = b"x" * 99 + b"\n"
        for _ in range(int(action["print_bytes"]) // len(line)):  # type: ignore[call-overload]
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    if "environment" in action:
        (folder / "environment.json").write_text(json.dumps(dict(os.environ)))
    if "pause" in action:
        time.sleep(float(action["pause"]))  # type: ignore[arg-type]
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
    if "question" in action:
        print(block({"question": action["question"]}))
    elif role == "planner":
        print(block({"plan": action.get("plan", plan())}))
    elif action.get("summary", "done") is not None:
        print(block({"summary": action.get("summary", "done")}))
    return int(action.get("exit", 0))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
