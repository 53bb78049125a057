"""The bounds of what effects take are above what they take, and not far."""

from __future__ import annotations

from hypothesis import given

from crdtstream.core.effects import Batch, Key
from crdtstream.core.entries.encoding import encode_named
from crdtstream.core.sizes import EFFECT_BYTES, entry_bytes
from crdtstream.core.values.batch_budget import CONTEXT_ROW_BYTES, HEADER_BYTES
from crdtstream.protocols.codec import encode_batch
from tests.protocols.test_codec import batches


@given(batches())
def test_a_batch_is_no_larger_than_its_effects_were_counted(batch: Batch) -> None:
    counted = sum(effect.bytes_max() for effect in batch.effects)
    bound = HEADER_BYTES + CONTEXT_ROW_BYTES * batch.context.origin_count() + counted
    size = len(encode_batch(batch))
    assert size <= bound
    # Entries take 24 bytes for columns and the others up to their numbers: no bound is a multiple of what it bounds.
    assert bound <= 2 * size + (EFFECT_BYTES + 32) * len(batch.effects) + HEADER_BYTES + 200


def test_an_entry_counts_all_that_it_brings_along() -> None:
    for fields in ([b"f", b"v"], [b"f" * 300, b""], [b"", b"v" * 100_000], [b"a", b"b"] * 500):
        key: Key = (15, b"k" * 1_000)
        assert len(encode_named(b"x" * 41, fields)) + len(key[1]) + EFFECT_BYTES < entry_bytes(key[1], fields)
