"""`crdtstream admin leave`: a region goes, and those that stay do not wait for it any more."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from redis.exceptions import ReadOnlyError
from rich.console import Console

from crdtstream.admin.leaving import leave, read_status
from crdtstream.admin.regions import Counterparts, Deadline
from crdtstream.observing.asking import RegionAnswer
from crdtstream.processes.clients import pairs
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from tests.admin.test_app import admin
from tests.region_processes import linked


def states(region: RegionProcess) -> dict[bytes, bytes]:
    rows = [pairs(row) for row in region.ask("CRDT.MEMBERS")]
    return {row[b"origin"]: row[b"state"] for row in rows}


def held_back(region: RegionProcess, origin: str) -> int:
    rows = [pairs(row) for row in region.ask("CRDT.MEMBERS")]
    return int(next(row[b"held-back-bytes"] for row in rows if row[b"origin"] == origin.encode()))


@pytest.fixture
def three(tmp_path: Path) -> object:
    with regions_in(tmp_path) as regions:
        made = regions.make(1, 2, 3)
        linked(*made)
        for region in made:
            region.await_admitted()
        yield made


def test_a_region_leaves_while_it_is_written_to(three: list[RegionProcess]) -> None:
    one, two, three_ = three
    three_.create_group("x", "g")
    told: list[bytes] = []
    client = three_.connect()

    def write() -> None:
        try:
            while True:
                told.append(client.execute_command("XADD", "x", "*", "f", "v"))
        except ReadOnlyError:
            pass

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    until(lambda: len(told) > 100, "a client writes")
    origin = three_.origin()
    code, output = admin((three_,), "--json", "leave")
    assert code == 0, output + three_.log_end()
    writer.join()
    assert three_.await_end() == 0
    assert {row["field"]: [*row["values"].values()] for row in json.loads(output)["rows"]} == {
        "origin": [origin],
        "state": ["left"],
    }
    until(lambda: states(one)[origin.encode()] == states(two)[origin.encode()] == b"evicted", "both know it")
    for region in (one, two):
        assert held_back(region, origin) == 0
        held = {entry[0] for entry in region.ask("XRANGE", "x", "-", "+")}
        assert held.issuperset(told)
        assert region.ask("XINFO", "GROUPS", "x"), "the group that it created counts"
    one.ask("XGROUP", "DESTROY", "x", "g")
    one.ask("DEL", "x")
    until(lambda: one.ask("DBSIZE") == two.ask("DBSIZE") == 0, "the key is gone")
    one.ask("SAVE")
    until(lambda: forgotten(one) and forgotten(two), "tombstones are forgotten without the region that left")


def forgotten(region: RegionProcess) -> bool:
    """Stability goes on: every member that is left holds everything."""
    rows = [pairs(row) for row in region.ask("CRDT.MEMBERS")]
    return all(row[b"held-back-bytes"] == 0 and row[b"durable-lag"] == 0 for row in rows if row[b"state"] == b"member")


def test_it_waits_for_a_member_that_is_down_and_may_be_aborted(three: list[RegionProcess]) -> None:
    one, two, three_ = three
    two.kill()
    three_.ask("XADD", "x", "*", "f", "v")
    until(lambda: three_.open_links() == {one.name}, "the link is lost")
    assert pairs(three_.ask("CRDT.LEAVE"))[b"state"] == b"draining"
    until(lambda: lacking(three_) == [2], "only the region that is down lacks something")
    with pytest.raises(ReadOnlyError, match="is leaving the cluster and takes no writes"):
        three_.ask("XADD", "x", "*", "f", "v")
    code, output = admin((three_,), "leave", "--abort")
    assert code == 0 and "staying" in output
    three_.ask("XADD", "x", "*", "f", "v")
    code, output = admin((three_,), "leave", "--abort")
    assert code == 2 and "is not leaving" in output
    assert pairs(three_.ask("CRDT.LEAVE"))[b"state"] == b"draining"
    assert admin((one,), "evict", two.name)[0] == 0
    code, output = admin((three_,), "leave")
    assert code == 0, output
    assert three_.await_end() == 0


def lacking(region: RegionProcess) -> list[int]:
    return [pairs(row)[b"region"] for row in pairs(region.ask("CRDT.LEAVE", "STATUS"))[b"lacking"]]


def test_a_region_alone_cannot_leave(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        (one,) = regions.make(1)
        one.start()
        one.await_serving()
        one.await_admitted()
        code, output = admin((one,), "leave")
        assert code == 2 and "no linked region can end the membership" in " ".join(output.split())
        assert one.ask("XADD", "x", "*", "f", "v")


class Scripted(Counterparts):
    """A region, or a shard of one, with these answers, one after the other."""

    def __init__(self, *answers: RegionAnswer, shard: int | None = None) -> None:
        self._answers = list(answers)
        self.shard = shard
        self.deadline = Deadline(1)
        self.asked: list[tuple[str | bytes | int, ...]] = []

    def ask_first(self, *words: str | bytes | int) -> RegionAnswer:
        self.asked.append(words)
        return self._answers.pop(0)

    def fields_of_first(self) -> dict[str, str]:
        return {"origin": "1.a"}


def status(state: bytes, effects: int = 0, name: bytes = b"west") -> RegionAnswer:
    rows = [[b"region", 2, b"name", name, b"effects", effects]] if effects else []
    return RegionAnswer("east", [b"state", state, b"lacking", rows])


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ((status(b"ending"), status(b"left")), ""),
        (
            (status(b"ending"), RegionAnswer("east", error="closed", unreachable=True)),
            "closed; look at CRDT.MEMBERS of another region whether origin 1.a is evicted",
        ),
        ((RegionAnswer("east", error="closed", unreachable=True),), "closed"),
        ((status(b"staying"),), "the leave was aborted, and the region takes writes"),
    ],
)
def test_how_a_leave_ends(monkeypatch: pytest.MonkeyPatch, answers: tuple[RegionAnswer, ...], error: str) -> None:
    monkeypatch.setattr("crdtstream.admin.leaving.POLL_S", 0.0)
    region = Scripted(status(b"draining", 5), *answers)
    assert leave([region], Console(stderr=True))[None].error == error
    assert region.asked == [("CRDT.LEAVE",)] + [("CRDT.LEAVE", "STATUS")] * len(answers)


def test_shards_are_followed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.admin.leaving.POLL_S", 0.0)
    refused = RegionAnswer("east", error="no linked region")
    one, two = Scripted(refused, shard=1), Scripted(status(b"draining", 5), status(b"left"), shard=2)
    found = leave([one, two], Console(stderr=True))
    assert found == {1: refused, 2: RegionAnswer("east", [b"origin", b"1.a", b"state", b"left"])}
    assert len(one.asked) == 1


def test_whoever_takes_nothing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("crdtstream.admin.leaving.POLL_S", 0.0)
    monkeypatch.setattr("crdtstream.admin.leaving.PATIENCE_S", 0.0)
    answers = [status(b"draining", 5, b""), status(b"draining", 5, b""), status(b"left")]
    leave([Scripted(*answers, shard=3)], Console(stderr=True, width=200))
    assert "shard 3: region 2 lacks 5 effects and takes none: link it again" in capsys.readouterr().err
    assert read_status(status(b"draining", 5)) == (b"draining", {"region west (2)": 5})
