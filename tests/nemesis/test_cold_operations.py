"""A small run on real processes; `python -m nemesis.cold_operations` is the large one."""

from __future__ import annotations

from pathlib import Path

from nemesis.cold_operations import MB, operated, table_of

KILLED = ["start", "checkpoint", "transfer", "transfer", "audit", "backup", "restore"]


def test_each_operation_leaves_the_data_as_it_was_also_if_it_is_killed(tmp_path: Path) -> None:
    lines = list(operated(tmp_path, 30, 3 * MB, 1))
    assert all(line.is_equal for line in lines), table_of(lines)
    assert [line.operation for line in lines if line.operation.endswith(", killed")] == [
        f"{name}, killed" for name in KILLED
    ]
    assert [line.of for line in lines if line.operation == "transfer"] == ["region main", "region other"]
    assert [line.of for line in lines if line.operation == "read all"] == [
        "region main",
        "region other",
        "region restored",
    ]
    assert all(line.peak_bytes > MB for line in lines)
