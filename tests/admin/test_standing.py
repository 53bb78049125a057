"""What is wrong with regions, from what they reply."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from crdtstream.admin.standing import FAILING, HEALTHY, ClusterStanding, Standings
from crdtstream.admin.watching import as_json, screen_of
from crdtstream.observing.digests import RegionDigest
from crdtstream.observing.reading import RegionReading
from tests.observing.made import origin, reading, row, shard

NUMBERS = range(1, 9)


def linked(*numbers: int, **fields: str) -> list[RegionReading]:
    return [reading(one, *[row(other) for other in numbers if other != one], **fields) for one in numbers]


def digests(*texts: str) -> dict[int, RegionDigest]:
    return {region: RegionDigest(text, {"1.a": 1}) for region, text in enumerate(texts, 1)}


def test_regions_that_agree_are_healthy_however_far_behind() -> None:
    ahead, behind = linked(1, 2)
    ahead = reading(1, *ahead.links[1:], vector="1.a=500")
    found = ClusterStanding((ahead, behind), {1: RegionDigest("x", {"1.a": 500}), 2: RegionDigest("y", {})})
    assert (found.code, found.failures(), found.behind(behind), found.behind(ahead)) == (HEALTHY, [], 500, 0)
    assert "digests were not compared: effects are on their way" in found.warnings()[0]
    assert (
        Standings((found,)).headline()
        == "OK  cluster shop: 2 of 2 regions answer, 1 of 1 links up, digests not compared"
    )


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        ([replace(linked(1)[0], error="no answer within 5 s")], "r1 does not answer: no answer within 5 s"),
        (linked(1, 2)[:1], "r2 is not asked: name its Redis address with --node"),
        (linked(1, loading_reason="the log is read"), "r1 serves no clients: the log is read"),
        (linked(1, audit_differences="1"), "r1 and a peer hold different state"),
        ([reading(1, row(2, "none", unlinked_ms=61_000, reason=b"refused")), reading(2)], "is down for 1 min: refused"),
        ([reading(1, row(0, "none", address=b"a:7", reason=b"no"))], "r1 reaches no region at a:7: no"),
    ],
)
def test_failures(readings: list[RegionReading], told: str) -> None:
    found = ClusterStanding(tuple(readings))
    assert found.code == FAILING
    assert any(told in text for text in found.failures()), found.failures()


def test_different_digests_of_one_vector_are_a_failure() -> None:
    assert ClusterStanding(tuple(linked(1, 2)), digests("x", "x")).code == HEALTHY
    found = ClusterStanding(tuple(linked(1, 2)), digests("x", "y"))
    assert (found.code, found.digest_result) == (FAILING, "different")
    assert "crdtstream admin digest --each" in found.failures()[0]


def test_an_evicted_region_is_nobodys_failure() -> None:
    stays = replace(reading(1, row(2, "none")), origins=origin(2, "evicted"))
    assert ClusterStanding((stays,)).failures() == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"disk_full": "1", "disk_free_bytes": "1024", "disk_remedy": "DEL"}, "its disk is full (1.0 KiB free): DEL"),
        (
            {"disk_free_bytes": "3072", "log_bytes": "2048"},
            "the disk of r1 is nearly full: 3.0 KiB free, the log takes 2.0 KiB",
        ),
        ({"disk_free_bytes": "3072", "disk_reserve_bytes": "2048"}, "the disk of r1 is nearly full: 3.0 KiB free"),
        ({"used_memory": "9", "maxmemory": "8"}, "its memory is at the limit of 8 B"),
        ({"rdb_last_bgsave_status": "err"}, "r1 cannot take a checkpoint"),
        (
            {
                "hot_bytes_max": "2048",
                "hot_bytes_unspillable": "4096",
                "hot_bytes_last_blocks": "3072",
                "hot_bytes_unsaved": "1024",
            },
            "r1 cannot spill 4.0 KiB of its blocks, more than hot_bytes_max: the last blocks of streams take 3.0 KiB,"
            " what no checkpoint has yet 1.0 KiB",
        ),
        (
            {"blocks_unreadable": "2", "blocks_first_unreadable": "blocks-00000007:4096"},
            "r1 cannot read 2 blocks, blocks-00000007:4096 the first, and work waits for them",
        ),
        ({"log_damages": "1"}, "a part of the log of r1 cannot be read"),
    ],
)
def test_warnings_are_no_failures(fields: dict[str, str], told: str) -> None:
    found = ClusterStanding((reading(1, **fields),))
    assert found.code == HEALTHY
    assert told in found.warnings()[0]


def test_what_cannot_be_spilled_is_no_warning_within_the_limit() -> None:
    within = reading(1, hot_bytes_max="4096", hot_bytes_unspillable="4096")
    assert ClusterStanding((within, reading(2, hot_bytes_unspillable="4096"))).warnings() == []


def test_a_certificate_that_ends_soon_is_a_warning() -> None:
    ending = reading(1, certificates_not_after="redis=1801000000,http=1900000000")
    found = ClusterStanding((ending,), at_s=1_800_000_000.0)
    assert (found.code, found.warnings()) == (
        HEALTHY,
        ["the certificate of the redis port of r1 ends 2027-01-26, in 11 days"],
    )
    assert ClusterStanding((ending,), at_s=1_700_000_000.0).warnings() == []
    console = Console(width=100, record=True, highlight=False, markup=False)
    console.print(screen_of(Standings((found,))))
    assert " 11 d" in console.export_text()


def test_eight_regions_fit_on_a_hundred_columns() -> None:
    busy = {
        "vector": "1.a=1234567",
        "used_memory": str(123 << 30),
        "disk_free_bytes": str(987 << 40),
        "log_held_bytes": str(100 << 30),
        "db0": "keys=200000,expires=0",
        "connected_clients": "10000",
        "instantaneous_ops_per_sec": "123456",
        "certificates_not_after": "redis=71280000",
    }
    readings = linked(*NUMBERS, **busy)
    readings[6] = replace(readings[6], report=None, error="no answer within 5 s")
    console = Console(width=100, record=True, highlight=False, markup=False)
    console.print(screen_of(Standings((ClusterStanding(tuple(readings)),))))
    lines = console.export_text().splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert sum("123.0 GiB" in line and "987.0 TiB" in line and "123,456" in line for line in lines) == 7
    assert len(lines) < 24


def test_the_worst_of_the_shards_is_that_of_the_region() -> None:
    well = ClusterStanding(tuple(shard(each, 0, row(3 - each)) for each in (1, 2)), digests("x", "x"), shard=0)
    silent = replace(shard(2, 1, row(1)), error="Connection refused")
    down = ClusterStanding((shard(1, 1, row(2), rdb_last_bgsave_status="err"), silent), digests("y"), shard=1)
    found = Standings((well, down))
    assert (found.code, found.digest_result) == (FAILING, "equal")
    assert found.failures() == ["shard 1: r2 does not answer: Connection refused"]
    assert found.warnings() == ["shard 1: r1 cannot take a checkpoint: see its log"]
    assert found.headline() == (
        "FAILING  cluster shop: 3 of 4 shards of 2 regions answer, 2 of 2 links up, digests equal"
    )
    assert Standings((well, replace(down, digests=digests("y", "z")))).digest_result == "different"
    console = Console(width=100, record=True, highlight=False, markup=False)
    console.print(screen_of(found))
    assert [line.split()[:3] for line in console.export_text().splitlines()[2:6]] == [
        ["0", "r1", "serves"],
        ["0", "r2", "serves"],
        ["1", "r1", "serves"],
        ["1", "r2", "no"],
    ]
    told = as_json(found)
    assert [(each["name"], each["shard"]) for each in told["regions"]] == [("r1", 0), ("r2", 0), ("r1", 1), ("r2", 1)]
    assert [each["shard"] for each in told["links"]] == [0, 1]
    assert "shard" not in as_json(Standings((ClusterStanding(tuple(linked(1, 2))),)))["regions"][0]
