"""The file that says which release wrote to a data directory last."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream import __version__
from crdtstream.storage.disk import RealDisk
from crdtstream.storage.release import RELEASE, read_release, record_release


@pytest.mark.parametrize("before", [None, b"9.9.9\n", b"\xff\x00", b""])
def test_the_release_in_use_is_noted(tmp_path: Path, before: bytes | None) -> None:
    if before is not None:
        (tmp_path / RELEASE).write_bytes(before)
    disk = RealDisk(str(tmp_path))
    assert read_release(disk) == ("9.9.9" if before == b"9.9.9\n" else "")
    for _ in range(2):
        record_release(disk)
        assert read_release(disk) == __version__
    disk.close()
