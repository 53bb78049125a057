"""What properties cost on the wire."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import Bench, find_node
from benchmarks.rows.property_bytes import property_bytes
from benchmarks.scale import SMALLEST
from benchmarks.servers import find_redis_server


def test_an_entry_has_its_bytes_and_a_name_or_an_exact_acknowledgement_costs_some_more(tmp_path: Path) -> None:
    with Bench(SMALLEST, find_node(sys.executable), find_redis_server(tmp_path)) as bench:
        each = {result.name: result.ours.value for result in property_bytes(bench, "wire")}
    assert 8 < each["wire-xadd"] < each["wire-xadd-idmp"] < 100
    assert 0 <= each["wire-xack"] < each["wire-xack-exact"] < 20
    assert each["wire-xack"] < each["wire-xack-owner"] < 20
