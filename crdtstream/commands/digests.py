"""CRDT.DIGEST: computed in slices (slicing.py) of `digest_entries_max` entries.

Clients that ask for the same digest share one computation, as long as its moment is not fixed yet.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.context import CommandError, Context, Reply, Work
from crdtstream.connections.slicing import begin, join
from crdtstream.core.digest import Digesting
from crdtstream.core.effects import Key
from crdtstream.protocols import replies


class DigestWork(Work):
    """A digest that is being computed."""

    def __init__(self, digesting: Digesting) -> None:
        self.digesting = digesting

    def step(self, context: Context) -> bool:
        return self.digesting.step(context.limits.digest_entries_max)

    def finish(self, context: Context, client: Client) -> bytes:
        found = self.digesting.digest
        return replies.null_bulk(client.protocol) if found is None else replies.bulk(found.hex().encode())

    def release(self) -> None:
        self.digesting.release()


def digest(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """The digest of everything, or of one key in the selected database, hidden or not; null if that key does not
    exist.
    """
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'crdt.digest' command")
    key = None if len(argv) == 1 else (client.database, argv[1])
    begun = under_way(context, key)
    if begun is not None:
        return join(context, client, begun)
    return begin(context, client, DigestWork(Digesting(context.replica, key)))


def under_way(context: Context, key: Key | None) -> DigestWork | None:
    """A digest of the same that has begun, if its moment is not fixed yet."""
    for work in context.works:
        if isinstance(work, DigestWork) and work.digesting.key == key and not work.digesting.is_fixed():
            return work
    return None
