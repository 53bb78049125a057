"""`crdtstream admin groups`, `diff` and `acl` against real regions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtstream.admin.comparison import AGREE, DIFFER
from crdtstream.admin.groups import as_json, caption, walk
from crdtstream.observing.access import Access
from crdtstream.observing.reading import RedisPorts, RegionReading
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from tests.admin.invoking import invoke, invoke_json

Two = tuple[RegionProcess, RegionProcess]


@pytest.fixture(scope="module")
def two_regions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    with regions_in(tmp_path_factory.mktemp("two")) as regions:
        one, two = regions.make(1, 2)
        one.start(two, incarnation=0)
        two.start(one, incarnation=0)
        one.await_serving()
        two.await_serving()
        for key, entries in (("long", 9), ("short", 2)):
            one.create_group(key, "g")
            for number in range(entries):
                one.ask("XADD", key, "*", "n", number)
        regions.await_agreement(one, two)
        until(lambda: invoke(one, "status")[0] == 0, "each knows the other")
        yield one, two


def test_groups_by_lag(two_regions: Two) -> None:
    one, two = two_regions
    two.ask("XREADGROUP", "GROUP", "g", "me", "COUNT", "4", "STREAMS", "long", ">")
    code, found = invoke_json(one, "groups")
    assert (code, found["complete"], found["streams"], found["groups"]) == (AGREE, True, 2, 2)
    long, short = found["rows"]
    assert (long["stream"], long["lag"], long["in"], long["pending"]) == ("long", 9, "region1", 4)
    assert long["regions"]["region2"] == {"lag": 5, "pending": 4, "consumers": 1}
    assert long["oldest_id"] == one.ask("XRANGE", "long", "-", "+", "COUNT", 1)[0][0].decode()
    assert (short["stream"], short["lag"]) == ("short", 2)
    code, text = invoke(one, "groups", "--count", "1")
    assert code == AGREE and "2 groups in 2 streams, 1 shown" in text and "short" not in text


async def test_groups_that_are_cut_short_say_so() -> None:
    ports = RedisPorts(Access())
    found = await walk(ports, [RegionReading("127.0.0.1:1")], 0.0, 5)
    await ports.close()
    assert found.cut == "127.0.0.1:1: cut short after 0 streams: wait longer with --timeout"
    assert found.cut in caption(found) and as_json(found, [])["complete"] is False


def test_a_stream_that_is_alike_takes_one_question(two_regions: Two) -> None:
    until(lambda: invoke(two_regions[0], "diff", "long")[0] == AGREE, "they agree")
    code, text = invoke(two_regions[0], "diff", "long")
    assert code == AGREE and "the digests are equal" in text


def test_users_are_compared_and_copied(two_regions: Two) -> None:
    one, two = two_regions
    one.ask("ACL", "SETUSER", "shop", "on", ">hush", "~orders:*", "+@read", "(~stock +xlen)")
    code, text = invoke(one, "acl", "diff")
    assert code == DIFFER and "shop" in text
    assert invoke(one, "acl", "copy", "nobody")[0] == 2
    code, found = invoke_json(one, "acl", "copy")
    assert (code, found["rows"][0]["values"]) == (AGREE, {"region1": "source", "region2": "copied"})
    assert two.ask("ACL", "GETUSER", "shop") == one.ask("ACL", "GETUSER", "shop")
    assert invoke(one, "acl", "diff")[0] == AGREE
    two.ask("ACL", "SETUSER", "shop", "off")
    assert invoke(one, "acl", "copy", "shop", "--from", "region2")[0] == AGREE
    assert one.ask("ACL", "LIST") == two.ask("ACL", "LIST")
    assert invoke(one, "acl", "copy", "--from", "nowhere")[0] == 2
    assert invoke(one, "acl", "copy", "--save")[0] == 2


def test_what_differs_in_a_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    with regions_in(tmp_path_factory.mktemp("apart")) as regions:
        one, two = regions.make(1, 2)
        for region in (one, two):
            region.start(incarnation=0, id_mode="liberal")
            region.await_serving().ask("XADD", "x", "1-1", "n", "same")
        two.ask("XADD", "x", "2-2", "n", "more")
        two.create_group("x", "g")
        code, text = invoke(one, "diff", "x", "--node", f"127.0.0.1:{two.port}")
        assert code == DIFFER and "2 entries compared, 1 different" in text
        code, found = invoke_json(one, "diff", "x", "--node", f"127.0.0.1:{two.port}")
        values = {each["field"]: each["values"] for each in found["rows"]}
        assert values["length"] == {"region2": 2, "region1": 1}
        assert values["2-2"] == {"region2": "yes", "region1": "-"}
        assert values["group g exists"] == {"region2": "yes", "region1": "no"}
