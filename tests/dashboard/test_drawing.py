"""The drawing of regions and links."""

from __future__ import annotations

from typing import Any

from crdtstream.dashboard.drawing import drawing, place_text, spot
from crdtstream.dashboard.model import Place
from crdtstream.observing.links import RegionLink


def place(region: int, **changes: Any) -> Place:
    told: dict[str, Any] = {"is_asked": True, "error": "", "loading": "", "lag": 0, "lag_ms": 0, **changes}
    return Place(region, f"region {region}", **told)


def test_each_region_and_each_link_is_drawn() -> None:
    places = [place(number) for number in range(1, 9)]
    links = [RegionLink(one, other, True, False, 0, 0, -1, "") for one in range(1, 9) for other in range(one + 1, 9)]
    made = drawing(places, links)
    assert sum(each.tag == "line" for each in made.all()) == 28
    assert sum(each.attributes.get("class") == "name" for each in made.all()) == 8
    assert made.attributes["aria-label"] == "8 regions, 28 links, 0 of them down"
    assert len({spot(index, 8) for index in range(8)}) == 8


def test_many_labels_would_hide_the_regions() -> None:
    places = [place(number) for number in range(1, 9)]
    for down in (4, 5):
        links = [RegionLink(one, 8, one > down, False, 0, 0, 5_000, "x") for one in range(1, 8)]
        assert list(drawing(places, links).texts()).count("down 5 s") == (4 if down == 4 else 0)


def test_what_is_wrong_is_written_beside_it() -> None:
    places = [place(1, lag=3, lag_ms=9_000), place(2, error="gone"), place(3, is_asked=False), place(4, loading="disk")]
    links = [RegionLink(1, 2, False, False, 0, 0, 5_000, "x"), RegionLink(1, 3, True, False, 8, 9_000, -1, "")]
    links += [RegionLink(2, 3, True, True, 0, 0, -1, ""), RegionLink(3, 4, True, False, 1, 20, -1, "")]
    texts = list(drawing(places, links).texts())
    for text in ("9 s behind", "no answer", "not asked", "loading", "down 5 s", "8 · 9 s", "transfer"):
        assert text in texts
    assert "1 · 20 ms" not in texts


def test_a_box_says_which_shard_is_worst_off() -> None:
    assert place_text(place(1, shard=2, error="Connection refused")) == "shard 2: no answer"
    assert place_text(place(1, shard=2, error="Connection refused", is_silent=True)) == "no answer"
    assert place_text(place(1, shard=0, lag=3, lag_ms=4_000)) == "shard 0: 4 s behind"
    assert place_text(place(1, shard=0)) == "up to date"
