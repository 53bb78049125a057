"""The way of an effect through the code, counted."""

from __future__ import annotations

import pytest

from benchmarks.traces import traces


@pytest.mark.interpreted
def test_the_far_side_of_an_entry_is_a_short_way() -> None:
    """Code that reads a batch twice, or visits what has not changed, exceeds these bounds by far."""
    near, far = traces()
    # Of these, 8 and 22 are steps of a version vector that keeps the component raised last: fewer instructions, but
    # more calls, than a look-up in its dictionary.
    assert len(near.calls) <= 116 and near.changes <= 73
    # Seven are `Block.opened`, the one accessor of a block's content.
    assert len(far.calls) <= 160 and far.changes <= 60
    assert sum(name == "decode_header" for _, name in far.calls) == 1
    assert not any(name == "Membership.advance" for _, name in far.calls)
