"""Which shard a request belongs to: what another one serves is answered MOVED, keys of several hash slots CROSSSLOT.

Dispatch asks here in a region of several shards only. A queued command is looked at like any other, and EXEC with the
keys of all that it would run, which must have one hash slot. A request without keys runs where it arrives. A range of
hash slots stays with its shard. Once the shard has moved, clients that wait in a request with keys are redirected too.

Reference: `getNodeByQuery`, `clusterRedirectClient` and `clusterRedirectBlockedClientIfNeeded` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Waiter
from crdtstream.connections.shards import Shard, ShardMap
from crdtstream.protocols.hash_slots import hash_slot_of

CROSSSLOT: Final = "CROSSSLOT Keys in request don't hash to the same slot"
NOT_SERVED: Final = "CLUSTERDOWN Hash slot not served"
# As Redis tells a client that waits for replicas of a server which is no master any more.
UNBLOCKED: Final = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
EXEC: Final = "exec"


class RedirectError(CommandError):
    """The request has to be made elsewhere, or cannot be made at all; EXEC replies it as it is."""


def require_own_keys(shards: ShardMap, client: Client, command: Command, argv: list[bytes]) -> None:
    """Raise unless the keys of this request have one hash slot, and this shard serves it."""
    if client.transaction is not None and command.name == EXEC:
        names = [name for queued, request in client.transaction.requests for name in names_in(queued, request)]
    elif command.has_one_key:
        if shards.serves(argv[command.first_key]):
            return
        names = [argv[command.first_key]]
    else:
        names = names_in(command, argv)
    if names:
        require_one_slot(shards, client, names)


def names_in(command: Command, argv: list[bytes]) -> list[bytes]:
    """The keys by which a request is routed: none if a list of streams has no ID for each, which is then told here."""
    positions = command.keys.positions(argv)
    if command.keys.keyword and positions and len(argv) - positions[0] != 2 * len(positions):
        return []
    return [argv[at] for at in positions]


def require_one_slot(shards: ShardMap, client: Client, names: list[bytes]) -> None:
    hash_slot = hash_slot_of(names[0])
    shard = shards.shard_of(hash_slot)
    port = shard.address.port_for(client.encrypted)
    elsewhere = not shards.owns(hash_slot)
    if elsewhere and port == 0:
        raise RedirectError(NOT_SERVED)
    if any(hash_slot_of(name) != hash_slot for name in names[1:]):
        raise RedirectError(CROSSSLOT)
    if elsewhere:
        raise RedirectError(f"MOVED {hash_slot} {host_for(shard, client)}:{port}")


def redirection_of(shards: ShardMap, waiter: Waiter) -> CommandError:
    """What a client is told that waits in a shard that has moved."""
    try:
        if waiter.names:
            require_one_slot(shards, waiter.client, waiter.names)
    except RedirectError as redirection:
        return redirection
    return CommandError(UNBLOCKED)


def host_for(shard: Shard, client: Client) -> str:
    """Where this client reaches a shard."""
    return shard.address.host or client.local_host()
