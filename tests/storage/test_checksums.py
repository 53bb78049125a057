"""One checksum, whichever library sums up."""

from __future__ import annotations

import sys
import zlib

import pytest

from crdtstream.storage.checksums import find_crc32


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1])
def test_checksums_do_not_depend_on_the_library(seed: int) -> None:
    data = bytes(range(256)) * 300
    for part in (data, memoryview(data)[7:70_001], memoryview(data)[1:4], b""):
        assert find_crc32()(part, seed) == zlib.crc32(part, seed)


def test_zlib_sums_where_the_faster_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    assert find_crc32() is zlib.crc32
