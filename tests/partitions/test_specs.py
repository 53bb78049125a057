"""Streams that are possible, and those that are not."""

from __future__ import annotations

import pytest

from crdtstream.partitions.specs import ID_BYTES_MAX, PARTITIONS_MAX, RETENTION_MS_MAX, require_valid
from crdtstream.partitions.values import INVALID, Refused, StreamSpec


@pytest.mark.parametrize(
    ("spec", "possible"),
    [
        (StreamSpec("s", 1, 1), True),
        (StreamSpec("s" * ID_BYTES_MAX, PARTITIONS_MAX, RETENTION_MS_MAX), True),
        (StreamSpec("", 1, 1), False),
        (StreamSpec("s" * (ID_BYTES_MAX + 1), 1, 1), False),
        (StreamSpec("s", 0, 1), False),
        (StreamSpec("s", PARTITIONS_MAX + 1, 1), False),
        (StreamSpec("s", 1, 0), False),
        (StreamSpec("s", 1, RETENTION_MS_MAX + 1), False),
    ],
)
def test_limits(spec: StreamSpec, possible: bool) -> None:
    if possible:
        require_valid(spec)
        return
    with pytest.raises(Refused) as caught:
        require_valid(spec)
    assert caught.value.code == INVALID
