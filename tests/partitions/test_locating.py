"""Offsets that a region does not have: to come, of another epoch, or of nobody."""

from __future__ import annotations

import pytest

from crdtstream.partitions.calls import LocateCall, LocateReply
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import UNREACHABLE, Refused
from crdtstream.settings.config import Limits
from tests.partitions.region_streams import STREAM, Regions


def located(regions: Regions, number: int, offset: int) -> Epoch | None:
    return regions.reply_to(number, LocateCall(STREAM, 0, offset), LocateReply).epoch


def epoch(regions: Regions, number: int) -> Epoch:
    return regions.streams(number).epoch(STREAM)


def test_a_region_that_lags_hears_from_the_home() -> None:
    regions = Regions(2)
    regions.put(1, b"a", b"b")
    regions.put(1, b"c")
    assert located(regions, 2, 2) == epoch(regions, 1)
    assert located(regions, 2, 3) is None and located(regions, 1, 3) is None, "nobody has it"


def test_a_home_that_misses_a_region_does_not_refuse() -> None:
    """That region may have taken over."""
    regions = Regions(2)
    regions.put(1, b"a")
    regions.cut(1, 2)
    assert regions.streams(1).misses_regions()
    assert located(regions, 1, 7) == epoch(regions, 1)


def test_what_the_new_home_does_not_know_is_settled_at_the_start_of_its_epoch() -> None:
    regions = Regions(2)
    regions.put(1, b"a")
    before = epoch(regions, 1)
    regions.cut(1, 2)
    regions.put(1, b"b", b"c", b"d")
    regions.streams(2).take_over(STREAM)
    regions.turn(2)
    regions.put(2, b"x")
    assert located(regions, 2, 3) == before
    assert regions.streams(2).clamp_offset(STREAM, 0, 4, before) == 1
    assert located(regions, 2, 1) == epoch(regions, 2)


def test_a_process_that_has_not_numbered_yet_does_not_refuse() -> None:
    """After a loss of unsynced writes it may have less than it has shown; its epoch will say from where on."""
    regions = Regions(1)
    regions.put(1, b"a")
    before = epoch(regions, 1)
    regions.restart(1)
    assert located(regions, 1, 5) == before
    regions.put(1, b"b")
    assert regions.streams(1).clamp_offset(STREAM, 0, 6, before) == 1


def test_a_question_moves_no_home() -> None:
    regions = Regions(2, limits=Limits(segment_bytes_max=1 << 16, takeover_ms=1_000))
    regions.put(1, b"a")
    regions.cut(1, 2)
    regions.live(10_000)
    with pytest.raises(Refused) as caught:
        located(regions, 2, 5)
    assert caught.value.code == UNREACHABLE and regions.streams(2).home(STREAM) == 1
    regions.put(2, b"b")
    assert regions.streams(2).home(STREAM) == 2


def test_a_founder_is_missed_although_its_join_is_not_here() -> None:
    regions = Regions(2)
    regions.node(1).birth.founders[3] = None
    assert regions.streams(1).misses_regions()


def test_a_region_is_missed_until_it_is_linked() -> None:
    regions = Regions(2)
    assert not regions.streams(1).misses_regions()
    assert not Regions(1).streams(1).misses_regions()
    regions.cut(1, 2)
    assert regions.streams(1).misses_regions()
    regions.heal(1, 2)
    regions.sync()
    assert not regions.streams(1).misses_regions()
