"""Replies recorded from a real server, byte for byte, in both protocols.

`data/wire-resp2.txt` and `data/wire-resp3.txt` hold one conversation each: a line is a request, the indented line below
it the reply with `\\r\\n` spelled out. Redis 8.6.3 answered; `<AUTOID>` and `<MS>` stand for what differs each time.
`SKIPPED` names every request that is not replayed, with the reason.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.commands.harness import Region

DATA = Path(__file__).resolve().parent / "data"
RECORDED = {2: DATA / "wire-resp2.txt", 3: DATA / "wire-resp3.txt"}

STRINGS = "every key is a stream"
IDEMPOTENCE = "idempotent adds came with 8.6"
TRANSACTIONS = "transactions are not offered yet"
OBJECTS = "OBJECT is not offered yet"
NO_ARGUMENTS = "8.6 says nothing of arguments where there are none, 7.2 does"
NEWER = "XNACK came with 8.8"
COUNTS_SKIPPED = "counts keys that skipped requests make"

SKIPPED: dict[str, tuple[str, ...]] = {
    STRINGS: (
        "SET str x",
        "XADD str * f v",
        "XLEN str",
        "XRANGE str - +",
        "XREAD STREAMS str 0",
        "XDEL str 1",
        "XTRIM str MAXLEN 1",
        "XINFO STREAM str",
        "XGROUP CREATE str g 0",
        "XREADGROUP GROUP g c STREAMS str >",
        "XPENDING str g",
        "XACK str g 2-0",
        "XDELEX str IDS 1 1-0",
        "XSETID str 1-0",
        "XCFGSET str IDMP-DURATION 10",
    ),
    IDEMPOTENCE: (
        "XADD i IDMP p1 a * f v",
        "XADD i IDMPAUTO p1 * f v",
        "XADD i IDMP p1 a 1-1 f v",
        "XADD i IDMP p1 a IDMP p1 b * f v",
        "XADD i IDMP p1 a IDMPAUTO p1 * f v",
        'XADD i IDMP "" a * f v',
        'XADD i IDMP p1 "" * f v',
        'XADD i IDMPAUTO "" * f v',
        "XADD i IDMP p1",
        "XCFGSET i IDMP-DURATION 10 IDMP-MAXSIZE 20",
        "XCFGSET i IDMP-DURATION 0",
        "XCFGSET i IDMP-DURATION 86401",
        "XCFGSET i IDMP-MAXSIZE 0",
        "XCFGSET i IDMP-MAXSIZE 10001",
        "XCFGSET i IDMP-MAXSIZE x",
        "XCFGSET i",
        "XCFGSET i FOO 1",
        "XCFGSET i IDMP-DURATION 10 IDMP-DURATION 10",
        "XCFGSET nokey IDMP-DURATION 10",
        "XIDMPRECORD j p1 a 1-1",
        "XIDMPRECORD j p1 a 2-2",
        "XIDMPRECORD j p1 b 9-9",
        'XIDMPRECORD j "" a 1-1',
        "XIDMPRECORD nokey p a 1-1",
        "XINFO STREAM i",
    ),
    TRANSACTIONS: ("MULTI", "XADD s *", "EXEC", "XADD s 20-0 f v", "XLEN s"),
    OBJECTS: ("OBJECT ENCODING s",),
    NO_ARGUMENTS: ("FOO",),
    NEWER: ("XNACK s g FAIL IDS 1 1-0",),
    COUNTS_SKIPPED: ("DEL s nk nk2 str i j m",),
}
# Both requests occur a first time where they can be replayed.
SKIPPED_WHEN_QUEUED = frozenset({"XADD s *", "XLEN s"})


def rows(path: Path) -> list[tuple[str, bytes]]:
    """Requests and replies in the order of the conversation."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found: list[tuple[str, bytes]] = []
    for request, reply in zip(lines[::2], lines[1::2], strict=True):
        assert not request.startswith(" ") and reply.startswith("    "), f"{path.name}: {request!r}, {reply!r}"
        found.append((request, reply[4:].encode().replace(rb"\r\n", b"\r\n")))
    return found


def pattern_of(request: str, reply: bytes) -> re.Pattern[bytes]:
    """What a reply must match: as recorded, but for clocks, minted IDs and the fields that 8.6 added."""
    if request.startswith("XINFO STREAM"):
        reply = without_idempotence(reply)
    pattern = re.escape(reply)
    pattern = pattern.replace(re.escape(b"$15\r\n<AUTOID>"), rb"\$15\r\n\d{13}-0")
    pattern = pattern.replace(re.escape(b"<MS>"), rb"\d+")
    if "CLAIM 0" in request:
        pattern = pattern.replace(rb":98", rb":\d+")
    if request.startswith("XPENDING"):
        pattern = re.sub(rb"(c4\\\r\\\n:)\d+", rb"\1\\d+", pattern)
    if request.startswith("XINFO CONSUMERS"):
        pattern = re.sub(rb"(idle\\\r\\\n:|inactive\\\r\\\n:)\d+", rb"\1\\d+", pattern)
    return re.compile(pattern)


def without_idempotence(reply: bytes) -> bytes:
    fewer = re.sub(rb"\$\d+\r\n(?:idmp|pids|iids)-[a-z]+\r\n:\d+\r\n", b"", reply)
    for more, less in ((b"*32", b"*20"), (b"*30", b"*18"), (b"%16", b"%10"), (b"%15", b"%9")):
        if fewer.startswith(more):
            return less + fewer[len(more) :]
    return fewer


def without_released(reply: bytes) -> bytes:
    """A reply without the field that 8.8 added."""
    fewer = re.sub(rb"\$12\r\nnacked-count\r\n:\d+\r\n", b"", reply)
    return fewer if fewer == reply else re.sub(rb"(?:\*(1)6|%8)(\r\n\$4\r\nname)", narrowed, fewer)


def narrowed(found: re.Match[bytes]) -> bytes:
    return (b"*14" if found[1] else b"%7") + found[2]


def reason_to_skip(request: str, queued: bool) -> str:
    if request in SKIPPED_WHEN_QUEUED and not queued:
        return ""
    return next((reason for reason, requests in SKIPPED.items() if request in requests), "")


def ask(region: Region, request: str) -> bytes:
    """A reply that comes now, or when the wait is over."""
    reply = region.run(*shlex.split(request))
    if reply is None:
        region.pass_time(10)
        [reply] = region.late_replies(region.client)
    region.end_turn()
    region.check()
    return reply


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_recorded_conversation(protocol: int) -> None:
    region = Region()
    region.client.protocol = protocol
    faults: list[str] = []
    queued = False
    for request, recorded in rows(RECORDED[protocol]):
        queued = request == "MULTI" or (queued and request != "EXEC")
        if reason_to_skip(request, queued):
            continue
        reply = without_released(ask(region, request))
        if not pattern_of(request, recorded).fullmatch(reply):
            faults.append(f"{request}\n  recorded {recorded!r}\n  answered {reply!r}")
    assert not faults, "\n".join(faults)


def test_every_skipped_request_was_recorded() -> None:
    recorded = {request for request, _ in rows(RECORDED[2])}
    named = {request for requests in SKIPPED.values() for request in requests}
    assert named <= recorded


def test_both_conversations_ask_the_same() -> None:
    assert [request for request, _ in rows(RECORDED[2])] == [request for request, _ in rows(RECORDED[3])]
