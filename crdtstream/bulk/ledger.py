"""What an application has published, stored beside the rows: a stream with one entry for each application.

    crdtstream:published:<application>    batch <n>  done 0|1  rows <partition>:<count>:<sum>,...  attempt <sum>

The entry records how many rows of each partition of the batch were added, the sum of those rows, and the sum of the
names of the stages that they came from, by which a call that is repeated is known. It is written in
the same turn as the rows, so a log, a checkpoint and every other region has both or neither. Older entries are removed
in the same turn. The ledger is in database 0, whatever database the rows are in.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from crdtstream.bulk.errors import FAILED_PRECONDITION, BulkError, refused_as, require_writable
from crdtstream.bulk.stages import LEDGER_PREFIX, require_application
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.minting import minted, top_of
from crdtstream.core.effects import Key
from crdtstream.core.entries.encoding import entry_fields
from crdtstream.core.streams.trimming import trimmable
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, EntryId

NOTHING: Final = -1


class Ledger:
    """The ledger entry of one application, as read or to be written; `batch` is NOTHING before the first batch."""

    __slots__ = ("attempt", "batch", "done", "rows")

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.done = False
        # Empty if a release wrote it that did not note the attempt.
        self.attempt = b""
        # Partition -> number of rows and their sum.
        self.rows: dict[int, tuple[int, bytes]] = {}

    def fields(self) -> list[bytes]:
        rows = [b"%d:%d:%b" % (number, *self.rows[number]) for number in sorted(self.rows)]
        fields = [b"batch", b"%d" % self.batch, b"done", b"%d" % self.done, b"rows", b",".join(rows)]
        return [*fields, b"attempt", self.attempt]


def attempt_of(names: list[str]) -> bytes:
    """Return the sum of these names of stages, which no other attempt has."""
    return blake2b(" ".join(names).encode(), digest_size=8).hexdigest().encode()


def key_of(application: str) -> Key:
    return (0, LEDGER_PREFIX + application.encode("utf-8", "surrogateescape"))


def read_ledger(context: Context, key: Key) -> Ledger:
    """Return the most advanced entry; regions that published at the same time leave one each."""
    found = Ledger(NOTHING)
    stream = context.replica.keyspace.find(key)
    if stream is None:
        return found
    for chain_range in stream.chain_ranges(ID_MIN, ID_MAX, -1, False):
        for part in chain_range:
            for piece in part.slices:
                for index in range(piece.low, piece.high):
                    found = later(found, parsed(key, piece.block.entry(index)))
    return found


def later(one: Ledger, other: Ledger) -> Ledger:
    return other if (other.batch, other.done, total(other)) >= (one.batch, one.done, total(one)) else one


def total(ledger: Ledger) -> int:
    return sum([count for count, _ in ledger.rows.values()])


def parsed(key: Key, entry: bytes) -> Ledger:
    fields = entry_fields(entry)
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    try:
        ledger = Ledger(int(named[b"batch"]))
        ledger.done = named[b"done"] == b"1"
        ledger.attempt = named.get(b"attempt", b"")
        for row in named[b"rows"].split(b",") if named[b"rows"] else []:
            partition, count, sum_text = row.split(b":")
            ledger.rows[int(partition)] = (int(count), sum_text)
    except (KeyError, ValueError) as error:
        text = f"the stream {key[1]!r} holds an entry that is not a ledger entry: delete it"
        raise BulkError(FAILED_PRECONDITION, text) from error
    return ledger


def forget_ledger(context: Context, application: str, batch: int) -> bool:
    """Delete the ledger of an application whose last batch, up to this one, is published; return whether it existed."""
    require_application(application)
    require_writable(context)
    key = key_of(application)
    known = read_ledger(context, key)
    return known.done and known.batch <= batch and context.replica.delete_stream(key)


def ledger_id(context: Context, key: Key) -> EntryId:
    """Return the ID of the next entry; may raise BulkError, so it is called before anything changes."""
    try:
        return minted(context, top_of(context, key))
    except CommandError as error:
        raise refused_as(FAILED_PRECONDITION, error) from error


def write_ledger(context: Context, key: Key, entry_id: EntryId, ledger: Ledger) -> None:
    """Add the entry and remove all others."""
    replica = context.replica
    replica.add_entry(key, entry_id, ledger.fields())
    stream = replica.keyspace.find(key)
    assert stream is not None, "a ledger that was just written is not there"
    replica.remove_entries(key, trimmable(stream, 1), True, None)
