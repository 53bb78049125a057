"""Publishing once, whatever an attempt is cut short by: each row is there exactly once when all is done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.bulk.errors import ABORTED, FAILED_PRECONDITION, INVALID_ARGUMENT, UNAVAILABLE, BulkError
from crdtstream.bulk.ledger import NOTHING, forget_ledger, key_of, read_ledger
from crdtstream.bulk.publishing import Publishing
from crdtstream.bulk.rows import SLICE_ROWS
from crdtstream.bulk.stages import Stage, Stages
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from tests.bulk.columns import Fields, message_of, parsed
from tests.commands.stream_region import Region

LEDGER = b"crdtstream:published:app"


class Application:
    """Stages and publishes in one region; `restart` is a crash of the region behind its last whole turn."""

    def __init__(self, region: Region | None = None) -> None:
        self.region = region or Region()
        self.stages = Stages()

    def stage(self, partition: int, messages: list[list[Fields]], batch: int = 1, **settings: object) -> Stage:
        context = self.region.context
        stage = self.stages.begin(0x101, "app", batch, partition, context.now_ms)
        for message in messages:
            rows = parsed(message_of(message, **settings))  # type: ignore[arg-type]
            while rows.count and rows.check(context.limits):
                pass
            self.stages.add(stage, rows, 1 << 40, context.now_ms)
            stage.sum.add(rows, 0, rows.count)
        stage.complete = True
        return stage

    def publish(
        self, stages: list[Stage], batch: int = 1, turns_max: int = 1_000_000, skip_published: bool = False
    ) -> Publishing:
        """At most so many turns, as if the region had crashed then."""
        publishing = Publishing("app", batch, skip_published)
        if publishing.begin(self.region.context, self.stages, [stage.name for stage in stages]):
            while turns_max and publishing.step(self.region.context, self.stages):
                turns_max -= 1
                self.region.close_turn()
        self.region.close_turn()
        self.stages.check()
        return publishing

    def crash(self) -> None:
        self.stages = Stages()

    def values(self, name: bytes = b"s") -> list[bytes]:
        """In the order in which readers see them."""
        stream = self.region.replica.keyspace.find((0, name))
        found = [
            (part.block.id_at(at), origin, entry_fields(part.block.entry(at))[1])
            for origin, tree in ([] if stream is None else stream.trees.items())
            for part in tree.slices(ID_MIN, ID_MAX, -1, False)
            for at in range(part.low, part.high)
        ]
        return [value for _, _, value in sorted(found)]

    def ledger(self) -> dict[bytes, bytes]:
        stream = self.region.stream(LEDGER)
        assert stream.length == 1, "older entries leave with the turn that replaced them"
        fields = entry_fields(b"".join(stream.range(ID_MIN, ID_MAX, -1, False)[1]))
        return dict(zip(fields[::2], fields[1::2], strict=True))


def rows(partition: int, count: int, width: int = 6) -> list[Fields]:
    return [[b"f", b"%d.%0*d" % (partition, width, at)] for at in range(count)]


def wanted(*parts: list[Fields]) -> list[bytes]:
    return [row[1] for part in parts for row in part]


def test_a_batch_is_added_in_the_order_of_its_stages() -> None:
    app = Application()
    two, one = app.stage(2, [rows(2, 30)]), app.stage(1, [rows(1, 2), rows(1, 0), rows(3, 5)])
    publishing = app.publish([one, two])
    assert (publishing.added.added, publishing.repeated) == (37, False)
    assert app.values() == wanted(rows(1, 2), rows(3, 5), rows(2, 30))
    assert (app.ledger()[b"batch"], app.ledger()[b"done"]) == (b"1", b"1")
    assert len(app.stages) == 0
    published = app.region.batches
    assert len(published) == 1, "rows and ledger are one record"


def test_a_ledger_is_forgotten_once_its_last_batch_is_published() -> None:
    app = Application()

    def forget(batch: int) -> bool:
        return forget_ledger(app.region.context, "app", batch)

    assert not forget(1)
    app.publish([app.stage(0, [rows(0, 3 * SLICE_ROWS)])], turns_max=2)
    assert app.values() and not forget(1), "the rest of its rows could not be added behind them"
    app.publish([app.stage(0, [rows(0, 3 * SLICE_ROWS)])])
    assert not forget(0), "a later batch was published"
    assert (forget(1), forget(1)) == (True, False)
    app.region.close_turn()
    follower = Region(2)
    for batch in app.region.batches:
        follower.replica.apply_batch(batch)
    for region in (app.region, follower):
        assert read_ledger(region.context, key_of("app")).batch == NOTHING
        assert region.stream().length == 3 * SLICE_ROWS


def test_a_large_batch_takes_many_turns_each_with_its_ledger() -> None:
    app = Application()
    stages = [app.stage(at, [rows(at, SLICE_ROWS + 10)]) for at in range(3)]
    app.publish(stages)
    assert len(app.values()) == 3 * (SLICE_ROWS + 10)
    assert len(app.region.batches) > 3
    follower = Region(2)
    seen = 0
    for batch in app.region.batches:
        follower.replica.apply_batch(batch)
        ledger = read_ledger(follower.context, key_of("app"))
        seen = follower.stream().length
        assert sum(count for count, _ in ledger.rows.values()) == seen, "a turn has rows without their ledger"
    assert seen == 3 * (SLICE_ROWS + 10)


sizes = st.lists(st.integers(0, 40), min_size=1, max_size=4)


@pytest.mark.interpreted
@given(sizes, st.lists(st.integers(0, 6), max_size=6), st.integers(1, 9), st.integers(1, 50))
def test_every_row_is_there_once_however_often_an_attempt_is_cut_short(
    counts: list[int], crashes: list[int], rows_a_turn: int, message: int
) -> None:
    app = Application()

    def attempt(turns_max: int) -> Publishing:
        parts = [
            app.stage(at, [rows(at, count)[low : low + message] for low in range(0, count, message)])
            for at, count in enumerate(counts)
        ]
        return app.publish(parts, 1, turns_max)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crdtstream.bulk.publishing.SLICE_ROWS", rows_a_turn)
        for turns_max in crashes:
            attempt(turns_max)
            app.crash()
        attempt(1_000_000)
        assert app.values() == wanted(*(rows(at, count) for at, count in enumerate(counts)))
        assert attempt(1_000_000).repeated
    assert app.values() == wanted(*(rows(at, count) for at, count in enumerate(counts)))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rows(1, 20), rows(2, 20)),
        (rows(1, 20), rows(1, 20)[::-1]),
        (rows(1, 20), rows(1, 3)),
        (rows(1, 20), []),
    ],
)
def test_other_rows_than_those_of_the_first_attempt_are_refused(
    monkeypatch: pytest.MonkeyPatch, first: list[Fields], second: list[Fields]
) -> None:
    monkeypatch.setattr("crdtstream.bulk.publishing.SLICE_ROWS", 5)
    app = Application()
    app.publish([app.stage(1, [first])], turns_max=2)
    app.crash()
    before = app.values()
    assert 0 < len(before) < 20
    with pytest.raises(BulkError, match=r"an earlier attempt added \d+ rows of partition 1.*shuffle") as refusal:
        app.publish([app.stage(1, [second])])
    assert (refusal.value.code, app.values()) == (FAILED_PRECONDITION, before)
    with pytest.raises(BulkError, match="partition 1"):
        app.publish([app.stage(2, [first])])
    app.publish([app.stage(1, [first]), app.stage(2, [])])
    assert app.values() == wanted(first)


def test_batches_rise() -> None:
    app = Application()
    for batch in (3, 4):
        app.publish([app.stage(0, [rows(batch, 2)], batch)], batch)
    for batch in (0, 3):
        with pytest.raises(BulkError, match=r"its rows were not added, because batch 4 was begun.*skipPublished"):
            app.publish([app.stage(0, [rows(batch, 2)], batch)], batch)
        skipped = app.publish([app.stage(0, [rows(7, 2)], batch)], batch, skip_published=True)
        assert (skipped.repeated, skipped.skipped) == (True, 2)
    assert app.values() == wanted(rows(3, 2), rows(4, 2))
    assert len(app.stages) == 0


OTHERS = {
    "other values": [(0, rows(2, 20)), (1, rows(1, 5))],
    "another order": [(0, rows(0, 20)[::-1]), (1, rows(1, 5))],
    "fewer": [(0, rows(0, 20)), (1, rows(1, 4))],
    "more": [(0, rows(0, 20)), (1, rows(1, 6))],
    "a partition less": [(0, rows(0, 20))],
    "a partition more": [(0, rows(0, 20)), (1, rows(1, 5)), (2, rows(2, 1))],
    "other partitions": [(1, rows(0, 20)), (0, rows(1, 5))],
    "nothing": [],
}


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_a_published_batch_with_other_rows_is_refused_or_skipped(others: list[tuple[int, list[Fields]]]) -> None:
    app = Application()
    parts = [(0, rows(0, 20)), (1, rows(1, 5))]
    app.publish([app.stage(at, [part]) for at, part in parts])
    before = app.values()
    with pytest.raises(
        BulkError, match=r"batch 1 of application 'app'.*was published with others.*skipPublished"
    ) as no:
        app.publish([app.stage(at, [part]) for at, part in others])
    assert no.value.code == FAILED_PRECONDITION
    same = app.publish([app.stage(at, [part[:3], part[3:]]) for at, part in [*parts, (7, [])]])
    assert (same.repeated, same.skipped) == (True, 25)
    skipped = app.publish([app.stage(at, [part]) for at, part in others], skip_published=True)
    assert (skipped.repeated, skipped.skipped) == (True, sum(len(part) for _, part in others))
    assert app.values() == before and len(app.stages) == 0


def test_a_call_whose_reply_was_lost_is_repeated_without_its_stages() -> None:
    app = Application()
    stages = [app.stage(0, [rows(0, 3)])]
    app.publish(stages)
    assert len(app.stages) == 0
    again = app.publish(stages)
    assert (again.repeated, again.skipped, app.values()) == (True, 0, wanted(rows(0, 3)))
    lost = app.stage(0, [rows(0, 3)])
    app.crash()
    with pytest.raises(BulkError, match="stage its rows again"):
        app.publish([lost])


def test_a_ledger_of_a_release_that_noted_no_attempt() -> None:
    app = Application()
    stages = [app.stage(0, [rows(0, 3)])]
    app.publish(stages)
    fields = [text for name, value in app.ledger().items() if name != b"attempt" for text in (name, value)]
    app.region.call("DEL", LEDGER.decode())
    app.region.call("XADD", LEDGER.decode(), "*", *[text.decode() for text in fields])
    assert app.publish(stages).repeated
    assert app.publish([app.stage(0, [rows(0, 3)])]).repeated
    with pytest.raises(BulkError, match="was published with others"):
        app.publish([app.stage(0, [rows(1, 3)])])


def test_an_empty_batch_is_published_too() -> None:
    app = Application()
    app.publish([], 1)
    assert (app.ledger()[b"batch"], app.ledger()[b"done"], app.values()) == (b"1", b"1", [])
    assert app.publish([], 1).repeated


def test_a_stage_that_is_gone_is_staged_again() -> None:
    app = Application()
    stage = app.stage(0, [rows(0, 1)])
    app.crash()
    with pytest.raises(BulkError, match="stage its rows again") as refusal:
        app.publish([stage])
    assert (refusal.value.code, app.region.replica.prepared) == (ABORTED, 0)


def test_a_row_that_is_refused_leaves_a_ledger_of_those_before_it() -> None:
    app = Application()
    sound = app.stage(0, [[[b"f", b"a"]]], ids=[(5, 1)])
    bad = app.stage(1, [[[b"f", b"b"]]], ids=[(4, 1)])
    with pytest.raises(BulkError, match="equal or smaller") as refusal:
        app.publish([sound, bad])
    assert refusal.value.code == INVALID_ARGUMENT
    assert app.values() == [b"a"]
    assert (app.ledger()[b"done"], app.ledger()[b"rows"][:4]) == (b"0", b"0:1:")
    with pytest.raises(BulkError, match="equal or smaller"):
        app.publish([sound, bad])
    assert app.values() == [b"a"]


def test_a_region_that_cannot_write_adds_neither_rows_nor_ledger() -> None:
    app = Application()
    stage = app.stage(0, [rows(0, 3)])
    app.region.context.standing.writable = False
    with pytest.raises(BulkError) as refusal:
        app.publish([stage])
    assert (refusal.value.code, app.region.replica.prepared) == (UNAVAILABLE, 0)
    app.region.context.standing.writable = True
    app.publish([stage])
    assert app.values() == wanted(rows(0, 3))


def test_another_region_goes_on_where_the_first_one_stopped() -> None:
    """Once it has what the first one did."""
    east, west = Application(Region(1)), Application(Region(2))
    parts = [rows(0, 2 * SLICE_ROWS), rows(1, 5)]
    east.publish([east.stage(at, [part]) for at, part in enumerate(parts)], turns_max=2)
    west.region.hear(east.region)
    assert 0 < len(west.values()) < 2 * SLICE_ROWS + 5
    west.publish([west.stage(at, [part]) for at, part in enumerate(parts)])
    assert sorted(west.values()) == sorted(wanted(*parts))
    east.region.hear(west.region)
    assert east.publish([east.stage(at, [part]) for at, part in enumerate(parts)]).repeated


def test_of_two_regions_ledgers_the_furthest_counts() -> None:
    east, west = Application(Region(1)), Application(Region(2))
    east.publish([], 5)
    west.publish([], 9)
    east.region.hear(west.region)
    assert east.publish([], 9).repeated
    assert not east.publish([], 10).repeated


@pytest.mark.parametrize("fields", [["f", "v"], ["batch", "x", "done", "1", "rows", ""]])
def test_a_ledger_that_no_publish_made_is_named(fields: list[str]) -> None:
    app = Application()
    app.region.call("XADD", LEDGER, "*", *fields)
    with pytest.raises(BulkError, match="is not a ledger entry: delete it") as refusal:
        app.publish([], 1)
    assert refusal.value.code == FAILED_PRECONDITION
