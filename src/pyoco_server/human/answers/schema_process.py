"""A process that checks answers, as the gateway sees it: asked one thing at a time, ended when it is late."""

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import Final

import msgspec

from pyoco_server.human.answers.schema_child import Check, Found, decode_found

log = logging.getLogger(__name__)

# Starting the process is not the schema's fault.
_START_SEC: Final = 10.0
_READY: Final = msgspec.json.encode(Check(None, True, "")) + b"\n"
_MAX_LINE: Final = 64 * 1024 * 1024


class SchemaProcess:
    """Is there from the first question to `close`; another one takes the place of one that was ended."""

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._process: Process | None = None
        # Whether the process has answered what it was asked.
        self._answered = True
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def ask(self, line: bytes) -> Found:
        async with self._turn:
            try:
                return await self._answer(line)
            except TimeoutError:
                text = f"its schema takes longer than {self._limit_sec:g} s to check: simplify it"
                return Found(schema=text)
            except (OSError, EOFError) as error:
                # Out of memory, perhaps: the same answer as for one that takes too long.
                log.warning("the process that checks answers has ended: %r", error)
                return Found(schema="the process that checks it has ended: simplify the schema or the answer")
            finally:
                # Cancelled or too late, its answer would be the next one's.
                if self._process is not None and not self._answered:
                    await self._end()

    async def _answer(self, line: bytes) -> Found:
        was_there = self._process is not None
        try:
            return await self._exchange(await self._started(), line, self._limit_sec)
        except (OSError, EOFError):
            if not was_there:
                raise
            # It had ended before it was asked, perhaps: then this is not the schema's doing.
            await self._end()
            return await self._exchange(await self._started(), line, self._limit_sec)

    async def _started(self) -> Process:
        self._answered = False
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "pyoco_server.human.answers.schema_child",
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_MAX_LINE,
            )
            await self._exchange(self._process, _READY, _START_SEC)
        return self._process

    async def _exchange(self, process: Process, line: bytes, limit_sec: float) -> Found:
        assert process.stdin is not None
        assert process.stdout is not None
        self._answered = False
        async with asyncio.timeout(limit_sec):
            process.stdin.write(line)
            await process.stdin.drain()
            answer = await process.stdout.readline()
        if not answer:
            raise EOFError("no answer")
        self._answered = True
        return decode_found(answer)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
