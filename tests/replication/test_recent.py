"""The newest batches, beside a log that has all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.causality import VersionVector
from crdtstream.protocols.codec import BATCH
from crdtstream.replication.history import History
from crdtstream.replication.recent import MESSAGES, Recent

MESSAGE_BYTES = 10


def recent_of(sizes: dict[int, int], links: int = 1) -> Recent:
    history = History()
    history.recent.keep(links, MESSAGE_BYTES)
    for position, size in sorted(sizes.items()):
        history.note(position, 1, position, VersionVector(), bytes(size))
        history.recent.check()
    return history.recent


@given(
    st.dictionaries(st.integers(1, 60), st.integers(1, 15), max_size=40),
    st.integers(1, 70),
    st.integers(1, 60),
)
def test_a_read_is_what_the_log_has_or_nothing(sizes: dict[int, int], position: int, bytes_max: int) -> None:
    found = recent_of(sizes).read(position, bytes_max)
    if found is None:
        return
    rest = sorted(at for at in sizes if at >= position)
    assert found == [(at, BATCH, bytes(sizes[at])) for at in rest[: len(found)]]
    size = sum(sizes[at] for at in rest[: len(found)])
    assert len(found) <= 1 or size <= bytes_max
    assert len(found) == len(rest) or size + sizes[rest[len(found)]] > bytes_max, "more fits"


@given(st.dictionaries(st.integers(1, 60), st.integers(1, 15), min_size=1, max_size=40))
def test_the_newest_are_kept_and_a_few_messages_bound_them(sizes: dict[int, int]) -> None:
    recent = recent_of(sizes)
    newest = max(sizes)
    assert recent.read(newest, 1) == [(newest, BATCH, bytes(sizes[newest]))]
    assert recent.read(newest + 1, 1) == []
    kept = [at for at in sizes if recent.read(at, 1) is not None]
    assert len(kept) == 1 or sum(sizes[at] for at in kept) <= MESSAGES * MESSAGE_BYTES
    assert all(at in kept for at in sizes if at > min(kept))


def test_without_links_nothing_is_kept() -> None:
    assert recent_of({1: 1, 2: 1}, links=0).read(2, 1) is None
    recent = recent_of({1: 1, 2: 1})
    assert recent.read(2, 1) is not None
    recent.keep(0, MESSAGE_BYTES)
    assert recent.read(2, 1) is None


def test_what_is_noted_while_there_was_no_link_is_left_to_the_log() -> None:
    history = History()
    history.note(3, 1, 3, VersionVector(), b"x")
    history.recent.keep(1, MESSAGE_BYTES)
    history.note(5, 1, 5, VersionVector(), b"y")
    assert history.recent.read(4, 1) is None, "as far as is known here, 4 may be missing, as 3 is"
    assert history.recent.read(5, 1) == [(5, BATCH, b"y")]


def test_what_was_kept_is_forgotten() -> None:
    recent = recent_of({1: 1, 2: 1})
    recent.clear()
    recent.check()
    assert recent.read(2, 1) is None
