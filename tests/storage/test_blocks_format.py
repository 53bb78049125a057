"""Blocks that lie on disks since the format was made: as long as a release reads format 3, they are read so.

What writes blocks may change, and so may what is packed; a test that only reads what it has written would not notice.
"""

from __future__ import annotations

from base64 import b64decode

import pytest

from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.entries.packed_block import OpenBlockCache
from crdtstream.core.values.entry_id import EntryId
from crdtstream.storage.blocks import OldBlockReader

FIRST_MS = 1_795_251_600_000
# Two entries, raw; 24 entries whose counters have a gap, packed; the same, in column layout.
RAW = (
    "AAIAAAAAAAAAhAAAAAAAAAAAAAAAoQEAAAcAAAAAAAAABAQABIB6Vf2AelX9AAAAAAEAAABCAAAAhAAAACoyDQokMTUNCjE3OTUyNTE2MDAwMD"
    "AtMA0KKjQNCiQyDQphdA0KJDQNCjEwMDANCiQyDQpvZg0KJDQNCmVhc3QNCioyDQokMTUNCjE3OTUyNTE2MDAwMDAtMQ0KKjQNCiQyDQphdA0K"
    "JDQNCjEwMDENCiQyDQpvZg0KJDQNCmVhc3QNCg=="
)
PACKED = (
    "BRgAAAAAAAAAMAYAAAAAAAAAAAAAoQEAAAAAAAAAAAAA7gAAAAAAAACAelX9oQEAAAAAAAAAAAAABwAAAAAAAADPAQAAAAAAAAAAAAAAAAAAKL"
    "Uv/WC0BiUHACKJHSCwJx3AMAyZhoVAQAjWTXjQBHZC9pZyy8Hc9inlzcZEymntru/SVYxa1GrV3cyJ9/wnfWLSsmvV9vnpuz+mg2gKhoOqHpMT"
    "TKfB3ASTFUwVqKqqem8z65j9BHOVgZkFDjnA8zwPpMFI2NnZ2dnZ2ZmDoFgghFBCIMCDZDi01BeEFQZqigBhhYGkPhBbC+hqBpL1gVgtoFszkN"
    "QXhBUGaooAYYWBpD4QWwvoagaS9YFYLaBbMwCSZH0g5hPMQx8rKuS4ufag8emRFHPJztonM86jXYvcRyCGGOIQQwwxxC4+Ag=="
)
IN_COLUMN_LAYOUT = (
    "BxgAAAAAAAAAMAYAAAAAAAAAAAAAoQEAAAAAAAAAAAAArAAAAAAAAACAelX9oQEAAAAAAAAAAAAABwAAAAAAAADPAQAAAAAAAAAAAAAAAAAAKL"
    "Uv/WA+ARUFAALGFiCwJx3AMAyZhoVAQAjWTXjQBLolhJC9JYZY1VEnjMQ7pY/COSASaXe3YRZFpdXU1ENCwyyKSquZqYcqOXycw00O1cCBgm3B"
    "0QFrrQh6OBa+7/u+7xtiYDTMzAIqIJCDJulg4I/BY0203L/QTtjJdsKetBP2trEid40VudsYiBh7mSIRF5+UJTOS1218m10+BrXIPQJiiEEMMc"
    "QhhtilRw=="
)


def row(at: int) -> tuple[EntryId, int, bytes]:
    entry_id = (FIRST_MS + at // 3, at % 3)
    return entry_id, 7 + at + (at > 4), encode_entry(entry_id, [b"at", b"%d" % (1000 + at), b"of", b"east"])


def read(text: str) -> Block:
    blocks: dict[int, Block] = {}
    reader = OldBlockReader(OpenBlockCache(1 << 20), blocks)
    reader.begin("blocks-1", 1, 3)
    reader.add_section(0, b64decode(text))
    (block,) = blocks.values()
    return block


@pytest.mark.parametrize(
    ("text", "count", "is_packed", "in_column_layout"),
    [(RAW, 2, False, False), (PACKED, 24, True, False), (IN_COLUMN_LAYOUT, 24, True, True)],
    ids=["raw", "packed", "column layout"],
)
def test_a_block_of_format_3_is_what_it_was(text: str, count: int, is_packed: bool, in_column_layout: bool) -> None:
    block = read(text)
    assert (
        block.is_packed == is_packed
        and (block.packed_form is not None and block.packed_form.in_column_layout) == in_column_layout
    )
    assert (block.id_at(0), block.counter_at(0), block.is_packed) == (*row(0)[:2], is_packed)
    assert [(block.id_at(at), block.counter_at(at), block.entry(at)) for at in range(block.count)] == [
        row(at) for at in range(count)
    ]
    block.check()
