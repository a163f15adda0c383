"""Rounds of all measurements over all peers, interleaved: other load on the machine affects all alike."""

import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.comparison.measures import SESSIONS, Session, run_session
from benchmarks.comparison.own_measures import OWN_SESSIONS
from benchmarks.harness.environments import NotMeasured
from benchmarks.peers.ours import OURS
from benchmarks.peers.peer import Peer
from benchmarks.report.results import PeerResult, Results, machine, now


async def take(peers: Sequence[Peer], *, rounds: int, quick: bool) -> Results:
    """A peer or a measurement that fails is noted in the results, and never stops the others."""
    results = Results(now(), machine(), rounds, quick, [_prepared(peer) for peer in peers])
    for number in range(rounds):
        for found in results.peers:
            found.rounds.append({})
        for session, peer, found in _order(peers, results, quick=quick):
            if not found.not_measured.keys().isdisjoint({"all", session.name}):
                continue
            started = time.perf_counter()
            outcome = await _one(session, peer, found)
            took = f"{time.perf_counter() - started:4.0f} s"
            _say(f"round {number + 1}/{rounds}  {session.name:10}  {peer.title:20}  {took}  {outcome}")
    return results


def _prepared(peer: Peer) -> PeerResult:
    result = PeerResult(peer.name, peer.title, peer.setup, peer.durability, peer.done)
    try:
        result.versions = peer.prepare()
    except NotMeasured as reason:
        result.not_measured["all"] = str(reason)
        _say(f"{peer.title} is not measured: {reason}")
    return result


def _order(
    peers: Sequence[Peer], results: Results, *, quick: bool
) -> Iterator[tuple[Session, Peer, PeerResult]]:
    """Each measure over all peers before the next one: what is compared was taken side by side."""
    for session in SESSIONS:
        if not (quick and session.full_only):
            yield from ((session, peer, found) for peer, found in zip(peers, results.peers, strict=True))
    for session in OWN_SESSIONS:
        for peer, found in zip(peers, results.peers, strict=True):
            if peer is OURS:
                yield session, peer, found


async def _one(session: Session, peer: Peer, found: PeerResult) -> str:
    try:
        found.rounds[-1] |= await run_session(session, peer)
    except Exception as error:  # noqa: BLE001 - whatever a peer does, the others are measured
        reason = _reason(error)
        found.not_measured[session.name] = reason
        return f"not measured: {reason}"
    return "measured"


def _reason(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _reason(error.exceptions[0])
    if isinstance(error, NotMeasured):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} at the time limit"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
