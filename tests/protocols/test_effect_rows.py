"""Rows of effects that no sound region writes; whole batches are in test_codec.py."""

from __future__ import annotations

import pytest

from crdtstream.core.effects import GroupDestroyed
from crdtstream.core.values.entry_id import U64_MAX
from crdtstream.protocols.columns import CodecError
from crdtstream.protocols.effect_rows import effect_row, read_effect


def test_the_last_database_is_one() -> None:
    effect = read_effect(effect_row(GroupDestroyed((15, b"x"), b"g")), 1)
    assert effect.key == (15, b"x")


@pytest.mark.parametrize("database", [16, 2**31, U64_MAX])
def test_a_database_that_is_none_is_refused(database: int) -> None:
    """It would be an index out of range in the middle of a batch that is being applied."""
    with pytest.raises(CodecError, match=f"there is no database {database}"):
        read_effect(effect_row(GroupDestroyed((database, b"x"), b"g")), 1)
