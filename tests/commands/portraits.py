"""What of two replies must be alike: everything but times, and what counts the parts that streams are stored in."""

from __future__ import annotations

import re

# Kinds are kept, so that a nil of a bulk string and one of an array differ.
Part = tuple[bytes, object]

ENTRY_ID = re.compile(rb"\d+-\d+")
# Blocks instead of nodes, and the fields of later releases.
OWN_FIELDS = frozenset((b"radix-tree-keys", b"radix-tree-nodes"))
LATER_FIELDS = (b"idmp-", b"pids-", b"iids-")
TIMES = [(b"$", name) for name in (b"idle", b"inactive", b"seen-time", b"active-time")]
SECOND_MS = 1000


def parsed(data: bytes) -> Part:
    """The only reply in `data`, of RESP2 or RESP3."""
    part, end = _part(data, 0)
    assert end == len(data), f"more than one reply: {data!r}"
    return part


def _part(data: bytes, start: int) -> tuple[Part, int]:
    line_end = data.index(b"\r\n", start)
    kind, line, end = data[start : start + 1], data[start + 1 : line_end], line_end + 2
    if kind in b"$*" and line == b"-1":
        return (kind + b"nil", None), end
    if kind in b"$=":
        return (kind, data[end : end + int(line)]), end + int(line) + 2
    if kind not in b"*%~>":
        return (kind, int(line) if kind == b":" else line), end
    items: list[Part] = []
    for _ in range(int(line) * (2 if kind == b"%" else 1)):
        item, end = _part(data, end)
        items.append(item)
    return (kind, items), end


def portrait(request: list[str], reply: Part) -> Part:
    """The reply without what may differ."""
    name = request[0].upper() if request else ""
    subcommand = request[1].upper() if len(request) > 1 else ""
    if name == "DUMP" and reply[0] == b"$":
        # Nodes are cut and strings compressed otherwise.
        return reply[0], "a payload"
    if name == "XINFO" or name == "XPENDING":
        return without_times(reply, subcommand == "STREAM")
    if name in ("KEYS", "SMEMBERS") and isinstance(reply[1], list):
        return reply[0], sorted(reply[1])
    if name in ("TTL", "PTTL") and isinstance(reply[1], int) and reply[1] > SECOND_MS:
        return reply[0], "time left"
    return reply


def without_times(part: Part, stored: bool) -> Part:
    kind, value = part
    if not isinstance(value, list):
        return part
    items = [without_times(item, False) for item in value]
    if is_pending_row(items):
        items[-2] = (b":", "time")
    for at in range(1, len(items)):
        if items[at - 1] in TIMES and items[at][1] != -1:
            items[at] = (b":", "time")
    return (kind, without_own_fields(items)) if stored else (kind, items)


def is_pending_row(items: list[Part]) -> bool:
    """An ID, perhaps a consumer, a time and a number of deliveries."""
    if len(items) not in (3, 4) or [kind for kind, _ in items[-2:]] != [b":", b":"]:
        return False
    entry_id = items[0][1]
    return isinstance(entry_id, bytes) and ENTRY_ID.fullmatch(entry_id) is not None


def without_own_fields(items: list[Part]) -> list[Part]:
    found: list[Part] = []
    for name, item in zip(items[::2], items[1::2], strict=True):
        if isinstance(name[1], bytes) and name[1] not in OWN_FIELDS and not name[1].startswith(LATER_FIELDS):
            found += [name, item]
    return found


def integers_in(part: Part) -> list[int]:
    return [value for kind, value in part[1] if isinstance(value, int)] if isinstance(part[1], list) else []
