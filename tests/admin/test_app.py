"""`crdtstream admin` against running regions: what it shows, what programs read, and its exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crdtstream.admin.comparison import AGREE, DIFFER, UNREACHABLE
from crdtstream.admin.regions import Deadline
from crdtstream.cli.app import USAGE_ERROR, app
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegionProcess, RegionProcess]]:
    """Two regions that replicate, with one stream and a group."""
    with regions_in(tmp_path_factory.mktemp("linked")) as regions:
        one, two = regions.make(1, 2)
        one.start(two, incarnation=0)
        two.start(one, incarnation=0)
        one.await_serving()
        two.await_serving()
        client = one.connect()
        for number in range(3):
            client.execute_command("XADD", "x", "*", "n", number)
        one.create_group("x", "g")
        client.execute_command("XREADGROUP", "GROUP", "g", "me", "COUNT", "1", "STREAMS", "x", ">")
        until(lambda: two.ask("XLEN", "x") == 3, "the entries arrive")
        regions.await_agreement(one, two)
        until(lambda: admitted(one, two), "each is a member for the other, linked and not behind")
        yield one, two


def admitted(*regions: RegionProcess) -> bool:
    fields = rows(regions, "members")[1]
    names = [region.name for region in regions]
    states = [fields.get(f"{region.origin()} state") for region in regions]
    links = [rows(regions, "regions")[1].get("region2 link", {}).get("region1")]
    lags = [rows(regions, "lag")[1].get("region2 lag", {}).get("region1")]
    return states == [dict.fromkeys(names, "member")] * len(regions) and links == ["open"] and lags == [0]


def state_of(region: RegionProcess) -> object:
    """As it sees itself."""
    return rows((region,), "members")[1].get(f"{region.origin()} state")


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RegionProcess, RegionProcess]]:
    """Two regions that never met, with different entries in one stream, and a stream that they agree on: none."""
    with regions_in(tmp_path_factory.mktemp("apart")) as regions:
        one, two = regions.make(1, 2)
        one.start(incarnation=0, id_mode="liberal")
        two.start(incarnation=0, id_mode="liberal")
        one.await_serving().ask("XADD", "x", "*", "n", "1")
        two.await_serving().ask("XADD", "y", "*", "n", "1")
        yield one, two


def admin(regions: tuple[RegionProcess, ...], *words: str) -> tuple[int, str]:
    nodes = [word for region in regions for word in ("--node", f"127.0.0.1:{region.port}")]
    result = CliRunner().invoke(app, ["admin", *nodes, "--only", *words], env={"COLUMNS": "160"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def rows(regions: tuple[RegionProcess, ...], *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code, and field -> values by region."""
    code, text = admin(regions, "--json", *words)
    found = json.loads(text)
    assert found["agree"] == (code == AGREE)
    return code, {row["field"]: row["values"] for row in found["rows"]}


def test_regions_that_agree(linked: tuple[RegionProcess, RegionProcess]) -> None:
    assert rows(linked, "xlen", "x") == (AGREE, {"value": {"region1": 3, "region2": 3}})
    code, entries = rows(linked, "xrange", "x", "--count", "2")
    assert (code, len(entries)) == (AGREE, 2)
    assert all(values["region1"] == values["region2"] for values in entries.values())
    assert rows(linked, "digest")[0] == AGREE
    assert rows(linked, "digest", "--each") == (AGREE, {})
    assert rows(linked, "xinfo", "stream", "x")[1]["length"] == {"region1": 3, "region2": 3}


def test_what_is_local_is_shown_and_not_compared(linked: tuple[RegionProcess, RegionProcess]) -> None:
    assert rows(linked, "xpending", "x", "g")[1]["count"] == {"region1": 1, "region2": 0}
    code, groups = rows(linked, "xinfo", "groups", "x")
    assert (code, groups["g pending"]) == (AGREE, {"region1": 1, "region2": 0})
    code, consumers = rows(linked, "xinfo", "consumers", "x", "g")
    assert (code, consumers["me pending"]) == (AGREE, {"region1": 1, "region2": "-"})


def test_links_and_lag(linked: tuple[RegionProcess, RegionProcess]) -> None:
    code, regions = rows(linked, "regions")
    assert code == AGREE
    assert regions["region2 link"]["region1"] == "open"
    assert rows(linked, "lag")[1]["region2 lag"]["region1"] == 0


def test_regions_that_differ_are_marked(apart: tuple[RegionProcess, RegionProcess]) -> None:
    assert rows(apart, "xlen", "x") == (DIFFER, {"value": {"region1": 1, "region2": 0}})
    code, text = admin(apart, "xlen", "x")
    assert code == DIFFER
    assert "≠" in text
    code, streams = rows(apart, "digest", "--each")
    assert (code, sorted(streams)) == (DIFFER, ["x", "y"])


def test_a_region_that_does_not_answer(linked: tuple[RegionProcess, RegionProcess]) -> None:
    silent = f"127.0.0.1:{free_port()}"
    code, text = admin(linked, "--node", silent, "--json", "xlen", "x")
    assert code == UNREACHABLE
    error, value = json.loads(text)["rows"]
    assert "refused" in error["values"][silent]
    assert value["values"] == {"region1": 3, "region2": 3, silent: "-"}


def test_a_suspended_region_holds_up_no_command(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        for region in (one, two):
            region.start(incarnation=0)
            region.await_serving().ask("XADD", "x", "*", "n", "1")
        two.signal(signal.SIGSTOP)
        address = f"127.0.0.1:{two.port}"
        for words in (("xlen", "x"), ("xrange", "x"), ("digest", "--each"), ("regions",), ("lag",), ("members",)):
            code, text = admin((one, two), "--timeout", "0.5", "--json", *words)
            assert code == UNREACHABLE
            told = json.loads(text)
            assert told["regions"] == ["region1", address]
            if words == ("xlen", "x"):
                assert told["rows"][1]["values"]["region1"] == 1, "the other is asked nevertheless"
        code, text = admin((two, one), "--timeout", "0.5", "--json", "evict", "9")
        assert code == UNREACHABLE and "no answer within 0.5 s: wait longer with --timeout" in text
        two.signal(signal.SIGCONT)


def test_streams_that_the_time_does_not_suffice_for(
    linked: tuple[RegionProcess, RegionProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = admin(linked, "--json", "digest", "--each")
    whole = json.loads(text)
    assert (code, whole["complete"], whole["compared"] > 0) == (AGREE, True, True)
    monkeypatch.setattr(Deadline, "is_near", lambda _deadline: True)
    cut = json.loads(admin(linked, "--json", "digest", "--each")[1])
    assert (cut["complete"], cut["compared"]) == (False, 0)
    assert "0 streams compared; cut short: wait longer with --timeout" in admin(linked, "digest", "--each")[1]


def test_every_entry_of_a_range_is_compared(apart: tuple[RegionProcess, RegionProcess]) -> None:
    for region in apart:
        for number in range(1, 31):
            region.ask("XADD", "long", f"{number}-{number}", "n", number)
    two = apart[1]
    assert rows(apart, "xrange", "long")[0] == AGREE
    two.ask("XDEL", "long", "25-25")
    code, found = rows(apart, "xrange", "long", "--count", "3")
    assert (code, list(found)) == (DIFFER, ["1-1", "2-2", "3-3", "25-25"])
    code, text = admin(apart, "xrange", "long", "--count", "3")
    assert code == DIFFER and "30 entries compared, 1 different, 4 shown" in text
    code, text = admin(apart, "--json", "xrange", "long", "--compare-max", "24")
    told = json.loads(text)
    assert (code, told["compared"], told["differing"], told["complete"]) == (AGREE, 24, 0, False)


@pytest.mark.parametrize("words", [["xlen", "x"], ["evict", "2"], ["regions"]])
def test_a_command_without_a_region_says_how_to_name_one(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["admin", *words], env={"COLUMNS": "160"})
    assert result.exit_code == USAGE_ERROR
    assert "name at least one region: --node HOST:PORT" in result.output


def test_an_error_reply_is_an_answer(linked: tuple[RegionProcess, RegionProcess]) -> None:
    code, found = rows(linked, "xinfo", "stream", "nothing")
    assert code == AGREE
    assert found["error"] == {"region1": "no such key", "region2": "no such key"}


@pytest.mark.parametrize("node", ["here", "here:", ":7001", "here:70000", "redis://here:7001"])
def test_an_address_that_is_none_is_named(node: str) -> None:
    result = CliRunner().invoke(app, ["admin", "--node", node, "xlen", "x"])
    assert result.exit_code == USAGE_ERROR
    assert "must be HOST:PORT" in result.output


def test_members_are_shown_with_what_is_kept_for_them(linked: tuple[RegionProcess, RegionProcess]) -> None:
    code, fields = rows(linked, "members")
    assert code == AGREE
    one, two = [region.origin() for region in linked]
    assert fields[f"{one} state"] == fields[f"{two} state"] == {"region1": "member", "region2": "member"}
    assert fields[f"{one} link"] == {"region1": "self", "region2": "open"}
    assert fields[f"{two} held-back-bytes"]["region1"] >= 0


def test_who_is_linked_is_not_evicted_by_mistake(linked: tuple[RegionProcess, RegionProcess]) -> None:
    code, text = admin(linked, "evict", "region2")
    assert code == USAGE_ERROR and "region region2 is linked now" in " ".join(text.split())
    assert rows(linked, "members")[1][f"{linked[1].origin()} state"]["region1"] == "member"


def test_a_region_starts_over_from_another(linked: tuple[RegionProcess, RegionProcess]) -> None:
    code, text = admin(linked, "start-over", "--from", "region1")
    assert code == USAGE_ERROR and "cannot start over from its own state" in " ".join(text.split())
    code, text = admin(linked, "start-over", "--from", "nowhere")
    assert code == USAGE_ERROR and "unknown region nowhere" in " ".join(text.split())
    gone, length = linked[0].origin(), linked[0].ask("XLEN", "x")
    code, found = rows(linked, "start-over", "--from", "2")
    assert code == AGREE
    origin = linked[0].origin()
    assert found == {"origin": {"region1": origin}, "left": {"region1": ""}} and origin != gone
    assert linked[0].ask("XLEN", "x") == length
    until(lambda: admitted(*linked), "the new origin is admitted")


def test_an_evicted_region_comes_back_with_its_data(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        one.start(two, incarnation=0)
        two.start(one, incarnation=0)
        one.await_serving()
        two.await_serving()
        until(lambda: admitted(one, two), "they have met")
        gone = two.origin()
        regions.await_agreement(one, two)
        one.terminate()
        two.create_group("x", "void")
        two.ask("XADD", "x", "*", "n", "1")
        two.terminate()
        one.start(two, incarnation=0)
        one.await_serving()
        assert rows((one,), "evict", "2")[1][gone]["region1"] >= 0
        assert rows((one,), "members")[1][f"{gone} state"] == {"region1": "evicted"}
        assert admin((one,), "evict", "2")[0] == USAGE_ERROR
        two.start(one, incarnation=0)
        two.await_serving()
        until(lambda: state_of(two) == {"region2": "member"}, "region 2 is admitted")
        regions.await_agreement(one, two)
        assert one.ask("XLEN", "x") == 1 and two.ask("XINFO", "GROUPS", "x") == []
        two.create_group("x", "new")
        regions.await_agreement(one, two)
        assert len(one.ask("XINFO", "GROUPS", "x")) == 1
