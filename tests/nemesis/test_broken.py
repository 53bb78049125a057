"""Real regions with a line of theirs broken: the checker names what they lose."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemesis.checker import LOST
from nemesis.cluster import RELAYS
from nemesis.region_process import ROOT
from nemesis.run import rounds

# A start forgets the last records, however sound they are, and asks no witness.
FORGETFUL = {
    "in scan(self._window(segment), segment.end, first, self.salt):": (
        "in list(scan(self._window(segment), segment.end, first, self.salt))[: None if after else -8]:"
    ),
    "        self._refuse_with_witness(damage, names)\n": "",
}


@pytest.mark.interpreted
def test_what_a_restart_forgets_is_named(tmp_path: Path) -> None:
    """The region was alone when it acknowledged that, so no peer gives it back."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "crdtstream", source / "crdtstream", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    path = source / "crdtstream" / "storage" / "recovery.py"
    text = path.read_text(encoding="utf-8")
    for line, broken in FORGETFUL.items():
        assert text.count(line) == 1, "the code has moved on: break what it is now"
        text = text.replace(line, broken)
    path.write_text(text, encoding="utf-8")
    [row] = rounds("always", ["cut off and killed"], 0, 1, seed=1, keep=tmp_path / "kept", kind=RELAYS, source=source)
    assert row.agree and not row.problems, row.problems
    found = [each for each in row.anomalies if each.kind == LOST]
    assert found and all(each.why == "nothing removed it" for each in found)
    assert not row.is_sound and (tmp_path / "kept" / "always-1" / "history.jsonl").exists()
