"""A few moves and kills of shards under load: nothing is lost, doubled, skipped or delivered again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import redis
from rich.console import Console

from nemesis.shard_load import Consumed, Operation, Produced, consume_all
from nemesis.shards import MOVE, Drill, Findings, drilled, table_of


def test_a_short_drill_is_sound(tmp_path: Path) -> None:
    *events, found = drilled(tmp_path, 3, 3, seed=1)
    assert isinstance(found, Findings) and found.is_sound, found
    assert len(events) == 3 + 3 + 4
    assert [len(pauses) for pauses in found.pauses_ms.values()] == [3, 3, 4]


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    drill = Drill(tmp_path, 1)
    drill.clients.produced.append(Produced("region1", "a", "p", {b"p-0": b"1-1", b"p-1": b"2-1", b"p-2": b"3-1"}))
    consumed = Consumed("a", "g", acknowledged={b"1-1"}, again=[b"1-1"])
    consumed.delivered.update([b"1-1", b"2-1", b"2-1"])
    drill.clients.consumed.append(consumed)
    drill.compare("a", [(b"1-1", b"p-0"), (b"9-9", b"p-0"), (b"3-1", b"other")])
    found = drill.findings
    assert (found.lost, found.doubled, found.again) == ([b"p-1", b"p-2"], [b"p-0"], [b"1-1", b"2-1"])
    assert sorted(found.skipped) == [b"2-1", b"3-1"]
    assert not found.is_sound


def test_a_pause_is_the_longest_add_that_was_under_way() -> None:
    made = Produced("region1", "a", "p", operations=[Operation(0, 1), Operation(1.5, 4), Operation(5, 9)])
    assert [made.pause_ms(2, 3), made.pause_ms(0.5, 4.5), made.pause_ms(4.2, 4.8)] == [2_500, 2_500, 0]
    console = Console(record=True, width=80)
    console.print(table_of(Findings({MOVE: [10.0, 30.0, 20.0]})))
    text = console.export_text()
    assert "20" in text and "30" in text


def test_an_add_is_repeated_under_its_name() -> None:
    made = Produced("region1", "a", "p")
    assert made.request() == made.request() == ("XADD", "a", "IDMP", "p", "0", "*", "t", b"p-0")
    made.record(b"1-1")
    assert made.ids == {b"p-0": b"1-1"} and made.request()[4] == "1"


class LosesAnswers:
    """Two entries in a region, of which the first is delivered and its delivery not answered, nor is the first XACK."""

    def __init__(self, ends: threading.Event) -> None:
        self.pending, self.new = [b"1-1"], [b"2-1"]
        self.is_lost = False
        self._ends = ends

    def xreadgroup(self, group: str, _consumer: str, starts: dict[str, str], **_options: int) -> list[object]:
        (start,) = starts.values()
        if start == ">":
            self.pending, self.new, entries = self.pending + self.new, [], self.new
        else:
            entries = list(self.pending)
        if not self.pending and not self.new:
            self._ends.set()
        return [(group, [(each, {}) for each in entries])] if entries else []

    def xack(self, _key: str, _group: str, *entry_ids: bytes) -> None:
        self.pending = [each for each in self.pending if each not in entry_ids]
        if not self.is_lost:
            self.is_lost = True
            raise redis.ConnectionError("closed")


@pytest.mark.parametrize("delivered_as_new", [False, True])
def test_a_consumer_reads_and_acknowledges_all_whatever_answer_is_lost(delivered_as_new: bool) -> None:
    ends = threading.Event()
    client, consumed = LosesAnswers(ends), Consumed("a", "g")
    if delivered_as_new:
        client.pending, client.new = [], [b"1-1", b"2-1"]
    with pytest.raises(redis.ConnectionError):
        consume_all(client, consumed, ends)
    consume_all(client, consumed, ends)
    assert consumed.acknowledged == {b"1-1", b"2-1"}
    assert not consumed.again
