"""CRDT.DIGEST: computed in slices at the end of turns, so that only its own client waits.

A digest that fits into one slice (`digest_entries_max`) is returned at once. Clients that ask for the same digest share
one computation, as long as its moment is not fixed yet. Digests are computed one after another; one that no client
waits for any more is abandoned. Inside EXEC, where nothing may wait, a digest is computed in one piece.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.context import CommandError, Context, Reply, Waiter
from crdtstream.clients.parking import NO_DEADLINE
from crdtstream.core.digest import Digesting
from crdtstream.protocols import replies


class DigestWaiter(Waiter):
    """A client that waits for a digest."""

    def __init__(self, client: Client, digesting: Digesting) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.digesting = digesting

    def serve(self, context: Context) -> bytes | None:
        return digest_reply(self.digesting, self.client) if self.digesting.done else None

    def expired(self, context: Context) -> bytes:
        while not self.digesting.done:
            self.digesting.step(context.limits.digest_entries_max)
        return digest_reply(self.digesting, self.client)


def digest_reply(digesting: Digesting, client: Client) -> bytes:
    found = digesting.digest
    return replies.null_bulk(client.protocol) if found is None else replies.bulk(found.hex().encode())


def digest(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """The digest of everything, or of one key in the selected database, hidden or not; null if that key does not
    exist.
    """
    if len(argv) > 2:
        raise CommandError("ERR wrong number of arguments for 'crdt.digest' command")
    key = None if len(argv) == 1 else (client.database, argv[1])
    digesting = next((one for one in context.digests if one.key == key and not one.is_fixed()), None)
    if digesting is None:
        digesting = Digesting(context.replica, key)
        if digesting.step(context.limits.digest_entries_max):
            return digest_reply(digesting, client)
        context.digests.append(digesting)
    context.park(DigestWaiter(client, digesting))
    return None


def digest_on(context: Context) -> bool:
    """Advance the first digest by one slice; true if that finished it."""
    waiters = context.parking.keyless()
    wanted = [waiter.digesting for waiter in waiters if isinstance(waiter, DigestWaiter)]
    for digesting in context.digests[:]:
        if digesting not in wanted:
            digesting.release()
            context.digests.remove(digesting)
    if not context.digests or not context.digests[0].step(context.limits.digest_entries_max):
        return False
    del context.digests[0]
    return True
