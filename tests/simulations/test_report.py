"""The diagram of a run: what its model holds, that any bytes are safe in the page, and the page in a real browser."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from simulations.__main__ import app
from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.network import START_MS
from simulations.report import TEXT_MAX, Drawing, embedded, key_of, model, page, violated
from simulations.settings import Settings
from simulations.world import World
from tests.dashboard.browser import chromium, need_chromium

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028&amp;<!--"
FAULTS = ("cut", "slow", "kill", "pause", "disk-full", "clock")
SETTINGS = Settings(3, "mesh", "strict", 3_000, FAULTS, fault_interval_ms=150, command_interval_ms=60)


@pytest.fixture(scope="module")
def drawn() -> tuple[World, dict[str, Any]]:
    drawing = Drawing()
    world = draw_world(7, SETTINGS, drawing)  # has four of the kinds of fault, as a test below demands
    run_checked(world)
    shown = model(world, drawing, "resurrection: region 2, (0, b'x'): (2, 1) was gone and lives again")
    return world, shown


def test_every_command_and_message_of_the_run_is_in_it(drawn: tuple[World, dict[str, Any]]) -> None:
    world, shown = drawn
    assert len(shown["messages"]) >= world.statistics["messages"]
    answered = [line for line in world.trace if re.match(r"\d+ \d+> .* = ", line)]
    assert len(shown["commands"]) == len(answered) > 20
    first = next(row for row in shown["commands"] if row["kind"] == "add")
    assert first["argv"].startswith("XADD ") and first["keys"] and re.match(r"\d+-\d+$", first["reply"])
    assert " entries, last ID " in first["state"] and re.match(r"\d+:\d+", first["vector"])
    data = [row for row in shown["messages"] if row["kind"] == "data" and row["arrived"] is not None]
    assert data
    assert any(row["keys"] for row in data)
    for row in data:
        assert row["at"] <= row["arrived"] <= shown["end"]
        assert re.match(r"\d+:\d+", row["vector"]) and row["parts"]
        assert {row["region"], row["to"]} <= set(world.machines)


def test_what_was_wrong_lasts_from_its_beginning_to_its_end(drawn: tuple[World, dict[str, Any]]) -> None:
    world, shown = drawn
    assert all(0 <= row["at"] <= row["until"] <= shown["end"] for row in [*shown["faults"], *shown["links"]])
    noted = {line.split()[2] for line in world.trace if re.match(r"\d+ fault ", line)}
    assert len(noted) >= 4, "the seed has few faults: choose another"
    assert noted <= {row["kind"] for row in shown["faults"]} | {"clock"}
    assert shown["end"] == world.now_ms - START_MS


def test_a_run_is_the_same_with_and_without_a_drawing() -> None:
    # Any seed does: both worlds have the same.
    with_it, without = draw_world(11, recorder=Drawing()), draw_world(11)
    for world in (with_it, without):
        run_checked(world)
    assert with_it.trace == without.trace


def test_the_violation_names_its_region_and_keys() -> None:
    what = "region 3, (0, b'y'): never delivered"
    assert violated(f"delivery: {what}", 90) == {
        "at": 90,
        "checker": "delivery",
        "text": what,
        "region": 3,
        "keys": ["y"],
    }
    assert violated("", 90) is None


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("XADD x * f v", "x"),
        ("XREADGROUP GROUP g c STREAMS y >", "y"),
        ("XGROUP CREATE z g 0", "z"),
        ("PING", None),
        ("XREAD STREAMS", None),
        ("XINFO", None),
    ],
)
def test_keys_of_commands(words: str, key: str | None) -> None:
    assert key_of(words.split()) == key


def hostile_page(shown: dict[str, Any]) -> str:
    row = dict(shown["commands"][0], argv=HOSTILE, reply=HOSTILE, keys=[HOSTILE], at=0)
    return page({**shown, "commands": [row, *shown["commands"][1:]]})


class Scripts(html.parser.HTMLParser):
    """The text of each script, and every address that another element would load."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.loads: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script"
        self.loads += [value or "" for name, value in attrs if name in ("src", "href") and value != "data:,"]
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def test_any_bytes_are_safe_in_the_page(drawn: tuple[World, dict[str, Any]]) -> None:
    parser = Scripts()
    parser.feed(hostile_page(drawn[1]))
    assert parser.loads == [], "the page is one file"
    assert len(parser.scripts) == 2
    assert json.loads(parser.scripts[0])["commands"][0]["argv"] == HOSTILE
    assert "innerHTML" not in parser.scripts[1]
    assert embedded("</script>") == '"\\u003c/script\\u003e"'


def test_placeholders_in_a_run_are_left_alone(drawn: tuple[World, dict[str, Any]]) -> None:
    row = dict(drawn[1]["commands"][0], argv="{{script}} {{run}}")
    text = page({**drawn[1], "commands": [row]})
    assert '"argv":"{{script}} {{run}}"' in text


def test_long_texts_are_cut(drawn: tuple[World, dict[str, Any]]) -> None:
    rows = [*drawn[1]["commands"], *drawn[1]["messages"]]
    texts = [text for row in rows for text in [row.get("reply", ""), *row.get("parts", [])]]
    assert max(map(len, texts)) <= TEXT_MAX + 40


PROBE = """
<script>
requestAnimationFrame(() => requestAnimationFrame(() => {
  const add = byType.command.find(event => event.kind === "add" && passes(event));
  show(add);
  look(add.at - 50, add.at + 50);
  size = { width: diagram.clientWidth, height: diagram.clientHeight };
  hover(xOf(add.at), yOfCommand(add));
  const told = tip.textContent, narrow = span();
  diagram.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  const zoomed = span();
  diagram.dispatchEvent(new KeyboardEvent("keydown", { key: "v" }));
  const seen = view.from <= run.violation.at && run.violation.at <= view.to;
  const foreign = between("command", 0, end).filter(event => !event.keys.includes("x")).length;
  const marks = document.querySelectorAll("img").length;
  const result = element("pre", JSON.stringify({ told, narrow, zoomed, seen, foreign, marks, adds: add.argv }));
  result.id = "probe";
  document.body.append(result);
}));
</script>
"""


def test_hover_zoom_and_filter_work_in_a_browser(drawn: tuple[World, dict[str, Any]], tmp_path: Path) -> None:
    need_chromium()
    path = tmp_path / "run.html"
    path.write_text(hostile_page(drawn[1]).replace("</body>", PROBE + "</body>"), encoding="utf-8")
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(f"{path.as_uri()}#key=x&zoom=3")
        found = tab.locator("#probe").text_content(timeout=60_000)
    probe = json.loads(found)
    assert probe["adds"] in probe["told"] and "entries, last ID" in probe["told"]
    assert probe["zoomed"] < probe["narrow"] and probe["seen"]
    assert probe["foreign"] == 0 and probe["marks"] == 0


def test_the_command_line_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    done = CliRunner().invoke(app, ["--seed", "5", "--duration-ms", "500", "--report", str(path)])
    assert done.exit_code in (0, 1) and "seed 5" in done.output and "result" in done.output
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
