"""Rows that wait to be published: whose they are, how much room they take, how long they stay."""

from __future__ import annotations

import pytest

from crdtstream.bulk.errors import ABORTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, BulkError
from crdtstream.bulk.rows import EntryRows
from crdtstream.bulk.stages import Stage, Stages
from tests.bulk.columns import message_of, parsed

ORIGIN = 0x2A01


def some_rows(count: int = 2, stream: bytes = b"s") -> EntryRows:
    return parsed(message_of([[b"f", b"v"]] * count, [stream]))


def staged(stages: Stages, application: str = "a", batch: int = 1, partition: int = 0, now_ms: int = 0) -> Stage:
    stage = stages.begin(ORIGIN, application, batch, partition, now_ms)
    stages.add(stage, some_rows(), 1 << 20, now_ms)
    stage.complete = True
    stages.check()
    return stage


def names_of(stages: Stages, *candidates: Stage) -> list[str]:
    """Those that are still there."""
    found = []
    for stage in candidates:
        try:
            stages.named(stage.application, stage.batch, [stage.name], 0)
        except BulkError as error:
            assert error.code == ABORTED
        else:
            found.append(stage.name)
    return found


def test_a_task_that_is_tried_again_replaces_what_it_staged() -> None:
    stages = Stages()
    first, other = staged(stages), staged(stages, partition=1)
    again = staged(stages)
    assert names_of(stages, first, other, again) == [other.name, again.name]


def test_attempts_at_the_same_time_each_have_a_stage() -> None:
    stages = Stages()
    one, two = stages.begin(ORIGIN, "a", 1, 0, 0), stages.begin(ORIGIN, "a", 1, 0, 0)
    one.complete = two.complete = True
    assert one.name != two.name
    assert names_of(stages, one, two) == [one.name, two.name]


def test_a_stage_is_taken_for_what_it_is() -> None:
    stages = Stages()
    stage = staged(stages)
    for application, batch in (("b", 1), ("a", 2)):
        with pytest.raises(BulkError, match="belongs to application 'a' and batch 1") as refusal:
            stages.named(application, batch, [stage.name], 0)
        assert refusal.value.code == INVALID_ARGUMENT
    with pytest.raises(BulkError, match="two stages have the same partition"):
        stages.named("a", 1, [stage.name, stage.name], 0)
    with pytest.raises(BulkError, match="does not exist"):
        stages.named("a", 1, [stages.begin(ORIGIN, "a", 1, 7, 0).name], 0)


def test_all_together_are_bounded() -> None:
    stages = Stages()
    size = some_rows().byte_count
    one = staged(stages)
    other = stages.begin(ORIGIN, "b", 1, 0, 0)
    with pytest.raises(BulkError, match=f"bulk_stage_bytes_max = {2 * size - 1}") as refusal:
        stages.add(other, some_rows(), 2 * size - 1, 0)
    assert refusal.value.code == RESOURCE_EXHAUSTED
    stages.drop(one)
    stages.drop(one)
    stages.add(other, some_rows(), 2 * size - 1, 0)
    stages.check()
    assert stages.byte_count == size


def test_stages_that_nobody_asks_for_leave() -> None:
    stages = Stages()
    old, asked = staged(stages), staged(stages, partition=1)
    open_one = stages.begin(ORIGIN, "a", 1, 2, 0)
    stages.named("a", 1, [asked.name], 500)
    stages.sweep(1_000, 1_000)
    assert len(stages) == 3
    stages.sweep(1_001, 1_000)
    assert names_of(stages, old, asked) == [asked.name]
    with pytest.raises(BulkError, match="does not exist"):
        stages.add(open_one, some_rows(), 1 << 20, 1_001)
    stages.check()


def test_a_clock_that_was_set_back_keeps_stages_for_no_longer_than_their_time() -> None:
    stages = Stages()
    staged(stages, now_ms=1_000_000)
    stages.sweep(1_000, 10)
    assert len(stages) == 1
    stages.sweep(1_011, 10)
    assert len(stages) == 0 and stages.byte_count == 0


def test_what_is_published_or_discarded_leaves() -> None:
    stages = Stages()
    kept = [staged(stages, batch=3), staged(stages, application="b")]
    gone = [staged(stages), staged(stages, partition=1), staged(stages, batch=2)]
    assert stages.drop_batch("a", 7) == 0
    stages.drop_through("a", 2)
    assert names_of(stages, *kept, *gone) == [stage.name for stage in kept]
    assert stages.drop_batch("a", 3) == 1
    assert len(stages) == 1
    stages.check()


def test_names_and_streams_that_cannot_be() -> None:
    stages = Stages()
    for name in ("", "a" * 257):
        with pytest.raises(BulkError, match="1 to 256 characters"):
            stages.begin(ORIGIN, name, 1, 0, 0)
    with pytest.raises(BulkError, match="is a ledger of this port"):
        stages.add(stages.begin(ORIGIN, "a", 1, 0, 0), some_rows(1, b"crdtstream:published:a"), 1 << 20, 0)
