"""What counts as a lack of room and for how long, and which batches need none."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import (
    DATA,
    MEMBERS,
    REMOVALS,
    SMALL,
    Acknowledged,
    AddCounted,
    Batch,
    Effect,
    EntriesRemoved,
    ExpirySet,
    GroupCreated,
    GroupDestroyed,
    MemberJoined,
    Position,
    StreamDeleted,
)
from crdtstream.core.values.causality import VersionVector
from crdtstream.protocols import codec
from crdtstream.replication.log.holding import (
    MEMORY_HELD_MS,
    RECORD_BYTES,
    SETTLED_MS,
    TOLD_AFTER_MS,
    Holding,
    Lack,
)
from crdtstream.settings.config import Config, Limits
from crdtstream.settings.live import Settings
from crdtstream.status.availability import Standing

KEY = (0, b"x")
LIMITS = Limits(message_bytes=1 << 10, window_bytes=1 << 20)
SETTINGS = Settings(Config("east", 1, "test", limits=LIMITS))


def holding_of(standing: Standing) -> Holding:
    return Holding(SETTINGS, standing, [])


def judged(*effects: Effect) -> int:
    batch = Batch(259, 1, sum(effect.width for effect in effects), VersionVector(), list(effects))
    payload = codec.encode_batch(batch)
    return holding_of(Standing()).judge(codec.decode_header(payload), payload)


REMOVED = EntriesRemoved(KEY, {259: [(1, 1)]}, True, None)
JOINED = MemberJoined(515)
ACKNOWLEDGED = Acknowledged(KEY, b"g", [(259, 1)], {259: [((0, 1), (0, 2))]})


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ([JOINED], MEMBERS),
        ([REMOVED], REMOVALS),
        ([StreamDeleted(KEY, {}), GroupDestroyed(KEY, b"g"), JOINED], REMOVALS),
        ([ACKNOWLEDGED], SMALL),
        ([ExpirySet(KEY, 5), REMOVED], SMALL),
        ([AddCounted(KEY, 1, 0)], DATA),
        ([REMOVED, GroupCreated(KEY, b"g", Position(), 0)], DATA),
    ],
)
def test_what_batches_hold(effects: list[Effect], expected: int) -> None:
    assert judged(*effects) == expected


def test_what_cannot_be_read_is_left_to_those_who_apply_it() -> None:
    payload = codec.encode_batch(Batch(259, 1, 1, VersionVector(), [StreamDeleted(KEY, {})]))
    assert holding_of(Standing()).judge(codec.decode_header(payload), payload[:-1]) == MEMBERS


def test_which_pass() -> None:
    standing = Standing()
    holding = holding_of(standing)
    assert all(holding.passes(kind, 1) for kind in (MEMBERS, REMOVALS, SMALL, DATA))
    standing.memory_short = True
    holding.observe(0)
    assert [holding.passes(kind, 1) for kind in (MEMBERS, REMOVALS, SMALL, DATA)] == [True, True, True, False]
    standing.writable = False
    holding.observe(0)
    assert holding.lacking == "disk", "the disk counts first"
    assert not any(holding.passes(kind, 1) for kind in (MEMBERS, REMOVALS, SMALL, DATA))
    standing.removal_bytes, standing.member_bytes = 1 + RECORD_BYTES, 2 * (1 + RECORD_BYTES)
    assert not holding.passes(SMALL, 1) and not holding.passes(DATA, 1)
    assert holding.passes(REMOVALS, 1) and not holding.passes(REMOVALS, 1), "its part of the reserve is used up"
    assert holding.passes(MEMBERS, 1) and not holding.passes(MEMBERS, 1)


def test_bounds_of_what_waits() -> None:
    standing = Standing()
    holding = holding_of(standing)
    assert holding.told == ("", 0)
    standing.writable = False
    holding.observe(0)
    assert holding.kept_bytes_max == LIMITS.window_bytes and holding.told == ("disk", 0)
    standing.writable, standing.memory_short = True, True
    holding.observe(0)
    assert holding.kept_bytes_max == LIMITS.message_bytes
    assert holding.told == ("memory", LIMITS.message_bytes)


def test_memory_is_short_for_a_while() -> None:
    standing = Standing()
    holding = holding_of(standing)
    standing.memory_short = True
    holding.observe(5)
    standing.memory_short = False
    holding.observe(5 + MEMORY_HELD_MS - 1)
    assert holding.lacking == "memory"
    holding.observe(5 + MEMORY_HELD_MS)
    assert holding.lacking == ""
    standing.writable = False
    holding.observe(6 + MEMORY_HELD_MS)
    standing.writable = True
    holding.observe(7 + MEMORY_HELD_MS)
    assert holding.lacking == "", "a disk is measured, and does not waver"


def test_a_clock_that_is_set_back_holds_nothing() -> None:
    standing = Standing()
    holding = holding_of(standing)
    standing.memory_short = True
    holding.observe(1 << 40)
    standing.memory_short = False
    holding.observe(5)
    assert holding.lacking == ""


def test_a_lack_that_comes_back_soon_is_the_same() -> None:
    lack = Lack()
    lack.set("memory", 100)
    lack.set("", 200)
    assert lack.waited_ms(300) == 0
    lack.set("memory", 200 + SETTLED_MS - 1)
    assert lack.since_ms == 100
    lack.set("", 20_000)
    lack.set("memory", 20_000 + SETTLED_MS)
    assert lack.since_ms == 20_000 + SETTLED_MS
    lack.set("disk", 40_000)
    assert lack.since_ms == 40_000 and lack.waited_ms(40_007) == 7


def test_it_is_told_once_it_lasts_and_its_end_once_it_is_settled() -> None:
    lack = Lack()
    assert lack.due(0) is None
    lack.set("memory", 100)
    assert lack.due(100) is None
    assert lack.due(100 + TOLD_AFTER_MS) == "memory"
    assert lack.due(200 + TOLD_AFTER_MS) is None
    lack.set("", 5_000)
    assert lack.due(5_000) is None
    assert lack.due(5_000 + SETTLED_MS) == ""
    assert lack.due(6_000 + SETTLED_MS) is None
    lack.set("disk", 30_000)
    lack.set("", 30_001)
    assert lack.due(30_001 + SETTLED_MS) is None, "what was never told has no end to be told"
