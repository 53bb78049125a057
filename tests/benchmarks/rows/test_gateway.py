"""The rows of the OCI gateway, small, from end to end; they need no other server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench, find_node
from benchmarks.rows.catalog import matching
from benchmarks.scale import SMALLEST

pytest.importorskip("fastapi")


@pytest.mark.parametrize("name", ["oci-put", "oci-get"])
def test_messages_are_counted(name: str, tmp_path: Path) -> None:
    [row] = matching(name)
    with Bench(SMALLEST, find_node(sys.executable), tmp_path / "no-redis") as bench:
        [result] = row.measure(bench, row.name)
    assert (result.name, result.unit, result.redis) == (name, "messages/s", None)
    assert result.ours.value > 0
    assert [rate > 0 for rate in result.details.values()] == [True]
