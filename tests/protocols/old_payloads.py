"""Payloads of DUMP as old releases of Redis write them."""

from __future__ import annotations

from crdtstream.core.values.entry_id import EntryId
from crdtstream.protocols.dump_writing import NodeWriter, length
from crdtstream.protocols.stream_dump import KIND_1
from tests.protocols.payloads import sealed


def by_6_2(count: int, last_group_id: EntryId) -> bytes:
    """A stream with the last ID 3-1 and as many entries from 1-1 on, and a group 7: no counters, and nothing of the
    first and of deleted entries.
    """
    nodes = NodeWriter()
    for ms in range(1, count + 1):
        nodes.add(((ms, 1), [b"f", b"v"]))
    nodes.close()
    parts = [bytes([KIND_1]), length(len(nodes.parts) // 2), *nodes.parts, *map(length, (count, 3, 1)), length(1)]
    # The name as a number, which Redis writes so.
    parts += [b"\xc0\x07", *map(length, last_group_id), length(0), length(0)]
    return sealed(b"".join(parts), 9)
