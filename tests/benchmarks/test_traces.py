"""The way of an effect through the code, counted."""

from __future__ import annotations

import pytest

from benchmarks.traces import traces


@pytest.mark.interpreted
def test_the_far_side_of_an_entry_is_a_short_way() -> None:
    """Far from these bounds somebody reads a batch twice, or looks at what has not changed."""
    near, far = traces()
    assert len(near.calls) <= 103 and near.changes <= 66
    assert len(far.calls) <= 140 and far.changes <= 63
    assert sum(name == "decode_header" for _, name in far.calls) == 1
    assert not any(name == "Membership.advance" for _, name in far.calls)
