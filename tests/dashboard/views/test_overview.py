"""The overview as texts."""

from __future__ import annotations

from crdtstream.dashboard.alerts import Alert
from crdtstream.dashboard.model import DigestRound, Headline, places
from crdtstream.dashboard.views import overview
from crdtstream.observing.lagging import LaggingGroup
from crdtstream.observing.links import RegionLink
from crdtstream.observing.reading import RegionReading
from tests.dashboard.cluster import reading, report

NOW_S = 1_800_000_000.0
NO_DIGESTS = {0: DigestRound({}, False, 0.0)}


def test_a_region_with_its_room() -> None:
    readings = [reading(1, {"1.a": 5}, memory_bytes=95, memory_limit_bytes=100), reading(2, {"1.a": 2}, disk_full=True)]
    digests = DigestRound({1: "abcdef0123456789"}, False, 0.0)
    texts = list(overview.regions(readings, places(readings, {(2, 0): 4_000}), {0: digests}, NOW_S).texts())
    for text in ("95 B of 100 B", "abcdef01", "3 · 4 s", "refuses writes", "2 · up 0 ms"):
        assert text in texts


def test_the_bar_of_a_disk_is_full_where_the_disk_is_nearly_full() -> None:
    for fields, width in (
        ({"log_bytes": 1 << 28}, "50.0%"),
        ({"log_bytes": 1 << 28, "disk_reserve_bytes": 1 << 28}, "100.0%"),
        ({"log_bytes": 1 << 29, "disk_full": True, "disk_needed_bytes": 1 << 28}, "25.0%"),
    ):
        bars = [
            each for each in overview.disk(report(1, {}, **fields)).all() if "fill" in each.attributes.get("class", "")
        ]
        assert [bar.attributes["style"] for bar in bars] == [f"width:{width}"]


def test_the_certificate_that_ends_first_is_shown() -> None:
    ends = {"redis": 1_801_000_000, "replication": 1_900_000_000}
    readings = [reading(1, {}, certificates=ends), reading(2, {}, certificates={"http": 1_900_000_000}), reading(3, {})]
    made = overview.regions(readings, places(readings, {}), NO_DIGESTS, NOW_S)
    assert {"ends soon: 2027-01-26, 11 days", "2030-03-17, 1157 days", "no TLS"} <= set(made.texts())
    titles = [each.attributes["title"] for each in made.all() if "redis:" in each.attributes.get("title", "")]
    assert titles == ["redis: ends soon: 2027-01-26, 11 days; replication: 2030-03-17, 1157 days"]


def test_a_region_that_never_answered() -> None:
    silent = RegionReading("h:1", error="Connection refused")
    assert {"h:1", "no answer", "Connection refused"} <= set(overview.regions([silent], [], NO_DIGESTS, NOW_S).texts())


def test_a_link_that_is_down_says_why() -> None:
    shown = places([reading(1, {}), reading(2, {})], {})
    link = RegionLink(1, 2, False, False, 7, 8_000, 9_000, "region 2 is evicted")
    texts = list(overview.picture(shown, [link]).texts())
    assert {"east and west", "9 s", "7", "8 s", "region 2 is evicted"} <= set(texts)


def test_a_region_without_any_link_is_one_row() -> None:
    names = {1: "east", 2: "west", 3: "north", 4: "south"}
    down = [RegionLink(one, 4, False, False, one, 1000 * one, 9_000, f"reason {one}") for one in (1, 2, 3)]
    up = [RegionLink(one, other, True, False, 0, 0, -1, "") for one, other in ((1, 2), (1, 3), (2, 3))]
    texts = list(overview.down_links(down, [*up, *down], names).texts())
    assert {"south and all 3 others", "3", "3 s", "reason 1 (and 2 other reasons)"} <= set(texts)
    assert "east and south" in list(overview.down_links(down[:1], [*up, *down], names).texts())


def test_each_lagging_group_stands_with_its_stream() -> None:
    group = LaggingGroup("east", b"orders \xff", b"<b>", 12, 3, "1700000000000-1")
    made = overview.lagging([group], True, 1_700_000_060_000)
    assert {"<b>", "orders \\xff", "east", "12", "1 min", "3"} <= set(made.texts())
    urls = [each.attributes["href"] for each in made.all() if each.tag == "a"]
    assert urls == ["/group?key=orders%20%FF&group=%3Cb%3E", "/stream?key=orders%20%FF"]
    assert "more may follow" in " ".join(overview.lagging([], False, 0).texts())


def test_groups_that_are_not_watched_are_not_concealed() -> None:
    (told,) = [text for text in overview.lagging([], True, 0, ["east", "west"]).texts() if "GroupNotRead" in text]
    assert told == "In east and west, more than 10,000 groups lag: GroupNotRead does not watch the others."


def test_alerts_have_their_page() -> None:
    made = overview.alarms([Alert("WritesRefused", "critical", "its disk is full")], "https://docs.example/")
    assert {"WritesRefused", "the disk is full", "critical"} <= set(made.texts())
    urls = [each.attributes["href"] for each in made.all() if each.tag == "a"]
    assert urls == ["https://docs.example/recovery/#the-disk-is-full"]
    assert "No alert would fire now." in overview.alarms([], "").texts()


def test_the_banner() -> None:
    made = overview.banner(Headline("behind", "west is behind", ("west lacks 1 effect",)))
    assert list(made.texts()) == ["…", "west is behind", "west lacks 1 effect"]
