"""The sum of what is unread, against a measurement of all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.runtime.redis.unread import Unread


def test_the_client_with_the_most_is_named_once_all_together_have_too_much() -> None:
    sizes = {1: 40, 2: 50, 3: 10}
    unread = Unread(sizes.__getitem__)
    for client_id, size in sizes.items():
        unread.record(client_id, size)
    assert unread.most_of(100) == 0
    assert unread.most_of(99) == 2


def test_what_was_read_meanwhile_does_not_count() -> None:
    sizes = {1: 40, 2: 50}
    unread = Unread(sizes.__getitem__)
    unread.record(1, 40)
    unread.record(2, 50)
    sizes[2] = 0
    assert unread.most_of(80) == 0
    assert unread.total_bytes == 40
    assert unread.most_of(39) == 1


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 100), st.integers(0, 100))), st.integers(0, 300))
def test_nobody_is_named_while_the_true_sum_is_within_the_bound(
    steps: list[tuple[int, int, int]], bytes_max: int
) -> None:
    sizes = dict.fromkeys(range(1, 5), 0)
    unread = Unread(sizes.__getitem__)
    for client_id, written, read in steps:
        sizes[client_id] += written
        unread.record(client_id, sizes[client_id])
        sizes[client_id] -= min(read, sizes[client_id])
        unread.check()
        most = unread.most_of(bytes_max)
        assert (most != 0) == (sum(sizes.values()) > bytes_max)
        assert not most or sizes[most] == max(sizes.values())
