"""The compiled pass of scripts/test leaves out some tests, and what it keeps imports nothing of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def left_out() -> list[Path]:
    """The files that the pass removes from its copy of the tests."""
    text = (ROOT / "scripts" / "test").read_text().replace("\\\n", " ")
    (parts,) = re.findall(r"for part in ([^;\n]*)\n\s*do\n\s*rm -r ", text)
    patterns = [*parts.split(), *re.findall(r'"\$beside"/tests/(\S+)', text)]
    found = [path for pattern in patterns for path in (ROOT / "tests").glob(pattern)]
    assert len(found) >= len(patterns) > 10, "scripts/test names something that is not there"
    return [file for path in found for file in ([path] if path.is_file() else path.rglob("*.py"))]


def test_what_it_keeps_imports_nothing_that_it_leaves_out() -> None:
    out = {file: ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in left_out()}
    faults = []
    for file in set((ROOT / "tests").rglob("*.py")) - set(out):
        # Spark and containers are tested elsewhere.
        if file.relative_to(ROOT).parts[1] not in ("spark", "containers"):
            imported = re.findall(r"^from (tests\.[\w.]+) import", file.read_text(), re.MULTILINE)
            faults += [f"{file.relative_to(ROOT)} imports {name}" for name in imported if name in out.values()]
    assert not faults, faults
