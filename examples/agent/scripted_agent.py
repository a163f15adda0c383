"""A coding CLI without a model: it adds a greeting to any repository, always in the same three steps.

It speaks the contract of docs/agent-requests.md, so that agent requests can be tried without an account, and
is the smallest example of a CLI of your own. A want that says "ask which language" makes it ask a question.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

PAUSE_SEC = 0.4
MODULE = Path("greeting.py")
TESTS = Path("test_greeting.py")
README = Path("README.md")
GREETINGS = {"English": "Hello", "Japanese": "こんにちは"}

FUNCTION = '''"""Greets people."""


def greeting(name: str) -> str:
    return f"{hello}, {{name}}!"
'''
FUNCTION_TEST = """import unittest

import greeting


class GreetingTest(unittest.TestCase):
    def test_names_the_person(self) -> None:
        self.assertIn("Ada", greeting.greeting("Ada"))
"""
COMMAND = """

if __name__ == "__main__":
    import sys

    print(greeting(sys.argv[1] if len(sys.argv) > 1 else "world"))
"""
COMMAND_TEST = """
    def test_command_prints_the_greeting(self) -> None:
        import subprocess
        import sys

        argv = [sys.executable, "greeting.py", "Ada"]
        shown = subprocess.run(argv, capture_output=True, check=True, encoding="utf-8").stdout
        self.assertEqual(shown.strip(), greeting.greeting("Ada"))
"""
USAGE = """
## Greeting

    python3 greeting.py Ada
"""


def plan() -> dict[str, Any]:
    steps = [
        ("S01", "Add the greeting", MODULE, ["greeting('Ada') contains 'Ada'", "the tests pass"], "feat"),
        ("S02", "Add a command", MODULE, ["`python3 greeting.py Ada` greets Ada", "the tests pass"], "feat"),
        ("S03", "Describe the command", README, ["README.md has the command", "the tests pass"], "docs"),
    ]
    return {
        "acceptance": ["A person is greeted by name.", "The command is described in README.md."],
        "steps": [
            {
                "id": step,
                "title": title,
                "objective": title,
                "scope": str(scope),
                "done": done,
                "tests": [str(TESTS)],
                "links": ["AC2"] if scope == README else ["AC1"],
                "commit": f"{kind}: {title.lower()}",
            }
            for step, title, scope, done, kind in steps
        ],
    }


def question(prompt: str) -> dict[str, Any] | None:
    """What is asked before the first step, if the want says so and nobody has answered yet."""
    if not re.search(r"ask which language", prompt, re.IGNORECASE) or language(prompt) is not None:
        return None
    return {
        "text": "Which language should the greeting be in?",
        "why": "The want does not say it, and the text is visible to everybody.",
        "format": "One word.",
        "choices": list(GREETINGS),
    }


def language(prompt: str) -> str | None:
    """The language that an answer names; answers stand in the want, and after it."""
    answers = re.findall(r"^(?:### 回答.*|Answer of a person:)\s*\n(.*)", prompt, flags=re.MULTILINE)
    return next((name for name in GREETINGS for answer in answers if name.lower() in answer.lower()), None)


def do(step: str, prompt: str) -> str:
    """Change the files of one step; the summary says what was done."""
    hello = GREETINGS[language(prompt) or "English"]
    match step:
        case "S01":
            return write({MODULE: FUNCTION.format(hello=hello), TESTS: FUNCTION_TEST})
        case "S02":
            return append({MODULE: COMMAND, TESTS: COMMAND_TEST})
        case "S03":
            return append({README: USAGE})
    return f"there is nothing to do for {step}"


def write(files: dict[Path, str]) -> str:
    missing = [path for path in files if not path.exists()]
    for path in missing:
        path.write_text(files[path], encoding="utf-8")
    return summary("Wrote", missing)


def append(files: dict[Path, str]) -> str:
    changed: list[Path] = []
    for path, text in files.items():
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if text not in before:
            path.write_text(before + text, encoding="utf-8")
            changed.append(path)
    return summary("Extended", changed)


def summary(done: str, paths: list[Path]) -> str:
    # A step without a change has to say so, or it counts as not done.
    return f"{done} {', '.join(map(str, paths))}." if paths else "Nothing to change: it is there already."


def report(block: dict[str, Any]) -> None:
    """What the server reads is the last fenced block with this name; everything before it is the log."""
    print(f"```aiflow\n{json.dumps(block, ensure_ascii=False, indent=1)}\n```", flush=True)


def main() -> None:
    prompt = Path(sys.argv[1]).read_text(encoding="utf-8")
    role = os.environ.get("AIFLOW_ROLE", "implementer")
    step = os.environ.get("AIFLOW_STEP", "")
    print(f"scripted agent: {role} {step}".rstrip(), flush=True)
    # Long enough to watch it.
    time.sleep(PAUSE_SEC)
    if role == "planner":
        report({"plan": plan()})
    elif step == "S01" and (asked := question(prompt)):
        report({"question": asked})
    else:
        report({"summary": do(step, prompt)})


if __name__ == "__main__":
    main()
