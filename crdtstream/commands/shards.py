"""CLUSTER, READONLY, READWRITE, ASKING: what a region of several shards says of them, as a Redis Cluster of masters.

Each shard is a master without replicas; other regions are none, because clients must not read there unasked. Whatever
would change the map is refused: hash slots are fixed when a cluster is founded, and addresses are the supervisor's. The
epoch of the map stands for that of each shard. Shards have no bus, so its port is 0, and no links.

In a region of one shard all this answers as a Redis without cluster support.

Reference: `cluster.c` of Redis.
"""

from __future__ import annotations

from abc import abstractmethod
from hashlib import sha1
from typing import Final

from crdtstream.commands.integers import integer
from crdtstream.commands.routing import host_for
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, Function, help_reply
from crdtstream.connections.context import CommandError, Context, Reply, Work, shown
from crdtstream.connections.shards import Shard, ShardMap
from crdtstream.connections.slicing import begin
from crdtstream.protocols import replies
from crdtstream.protocols.hash_slots import HASH_SLOTS, hash_slot_of

NO_CLUSTER: Final = "ERR This instance has cluster support disabled"
INVALID_SLOT: Final = "ERR Invalid slot"
INVALID_SLOT_OR_COUNT: Final = "ERR Invalid slot or number of keys"
FIXED: Final = (
    "the hash slots of a shard are fixed when its cluster is founded: to have more shards, found a new cluster and"
    " import the data"
)
SUPERVISED: Final = "the supervisor alone writes the map of shards: to move a shard, stop it and start it elsewhere"
ALONE: Final = "a shard has no replicas: to keep the data in another place, add a region"
UNCOUNTED: Final = "a shard keeps no statistics of hash slots: CLUSTER COUNTKEYSINSLOT counts the keys of one"
# What would change the cluster, and why it is refused.
REFUSED: Final = {
    "addslots": FIXED,
    "addslotsrange": FIXED,
    "bumpepoch": SUPERVISED,
    "delslots": FIXED,
    "delslotsrange": FIXED,
    "failover": ALONE,
    "flushslots": FIXED,
    "forget": SUPERVISED,
    "meet": SUPERVISED,
    "replicate": ALONE,
    "reset": FIXED,
    "saveconfig": SUPERVISED,
    "set-config-epoch": SUPERVISED,
    "setslot": FIXED,
    "slot-stats": UNCOUNTED,
}
HELP: Final = """\
COUNTKEYSINSLOT <slot>
    Return the number of keys in <slot>.
GETKEYSINSLOT <slot> <count>
    Return key names stored by current node in a slot.
INFO
    Return information about the cluster.
KEYSLOT <key>
    Return the hash slot for <key>.
MYID
    Return the node id.
MYSHARDID
    Return the node's shard id.
NODES
    Return cluster configuration seen by node. Output format:
    <id> <ip:port@bus-port[,hostname]> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...
REPLICAS <node-id>
    Return <node-id> replicas.
SLOTS
    Return information about slots range mappings. Each range is made of:
    start, end, master and replicas IP addresses, ports and ids
SHARDS
    Return information about slot range mappings and the nodes associated with them.
COUNT-FAILURE-REPORTS <node-id>
    Return number of failure reports for <node-id>.
LINKS
    Return information about all network links between this node and its peers.
    Output format is an array where each array element is a map containing attributes of a link
HELP
    Print this help."""

# How many keys are looked at in one turn.
KEYS_READ: Final = 10_000
I64_MAX: Final = 2**63 - 1


def shards_of(context: Context) -> ShardMap:
    if context.shards is None:
        raise CommandError(NO_CLUSTER)
    return context.shards


def accept(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """READONLY, READWRITE and ASKING: there are no replicas and no hash slots on the move, so nothing changes."""
    shards_of(context)
    return replies.OK


def refuse(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards_of(context)
    name = argv[1].upper().decode()
    raise CommandError(f"ERR CLUSTER {name} is refused: {REFUSED[name.lower()]}")


def help_text(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards_of(context)
    return help_reply("cluster", HELP.split("\n"))


# The map


def slots(context: Context, client: Client, argv: list[bytes]) -> Reply:
    rows: list[bytes] = []
    for shard in placed(shards_of(context), client):
        node = [
            replies.bulk(host_for(shard, client).encode()),
            replies.integer(shard.address.port_for(client.encrypted)),
        ]
        node += [replies.bulk(shard.node_id.encode()), replies.mapping([], client.protocol)]
        rows.append(replies.array([replies.integer(shard.low), replies.integer(shard.high), replies.array(node)]))
    return replies.array(rows)


def placed(shards: ShardMap, client: Client) -> list[Shard]:
    """The shards whose address is known."""
    return [shard for shard in shards.shards if shard.address.port_for(client.encrypted)]


def groups(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CLUSTER SHARDS."""
    protocol = client.protocol
    rows: list[bytes] = []
    for shard in shards_of(context).shards:
        hash_slots = replies.array([replies.integer(shard.low), replies.integer(shard.high)])
        nodes = replies.array([replies.mapping(described(shard, client), protocol)])
        rows.append(replies.mapping([replies.bulk(b"slots"), hash_slots, replies.bulk(b"nodes"), nodes], protocol))
    return replies.array(rows)


def described(shard: Shard, client: Client) -> list[bytes]:
    address = shard.address
    host = replies.bulk(host_for(shard, client).encode())
    items = [replies.bulk(b"id"), replies.bulk(shard.node_id.encode())]
    for name, port in ((b"port", address.port), (b"tls-port", address.tls_port)):
        if port:
            items += [replies.bulk(name), replies.integer(port)]
    items += [replies.bulk(b"ip"), host, replies.bulk(b"endpoint"), host]
    items += [replies.bulk(b"role"), replies.bulk(b"master"), replies.bulk(b"replication-offset"), replies.ZERO]
    online = b"online" if address.port_for(client.encrypted) else b"fail"
    return [*items, replies.bulk(b"health"), replies.bulk(online)]


def nodes(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards = shards_of(context)
    lines: list[str] = []
    for shard in shards.shards:
        port = shard.address.port_for(client.encrypted)
        flags = ("myself," if shard.number == shards.own else "") + "master" + ("" if port else ",noaddr")
        state = "connected" if port else "disconnected"
        hash_slots = f"{shard.low}-{shard.high}" if shard.low < shard.high else f"{shard.low}"
        address = f"{host_for(shard, client) if port else ''}:{port}@0"
        lines.append(f"{shard.node_id} {address} {flags} - 0 0 {shards.epoch} {state} {hash_slots}\n")
    return replies.verbatim("".join(lines).encode(), client.protocol)


def facts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CLUSTER INFO. Where the address of a shard is not known, its hash slots count as failed."""
    shards = shards_of(context)
    served = sum([shard.high - shard.low + 1 for shard in placed(shards, client)])
    rows: list[tuple[str, object]] = [
        ("cluster_state", "ok" if served == HASH_SLOTS else "fail"),
        ("cluster_slots_assigned", HASH_SLOTS),
        ("cluster_slots_ok", served),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", HASH_SLOTS - served),
        ("cluster_known_nodes", len(shards.shards)),
        ("cluster_size", len(shards.shards)),
        ("cluster_current_epoch", shards.epoch),
        ("cluster_my_epoch", shards.epoch),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ]
    return replies.verbatim("".join([f"{name}:{value}\r\n" for name, value in rows]).encode(), client.protocol)


def own_id(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk(shards_of(context).own_shard().node_id.encode())


def own_shard_id(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """An ID that a shard would share with its replicas."""
    node_id = shards_of(context).own_shard().node_id
    return replies.bulk(sha1(node_id.encode(), usedforsecurity=False).hexdigest().encode())


def links(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards_of(context)
    return replies.EMPTY_ARRAY


def require_node(context: Context, argv: list[bytes]) -> None:
    if argv[2] not in [shard.node_id.encode() for shard in shards_of(context).shards]:
        raise CommandError(f"ERR Unknown node {shown(argv[2])}")


def replicas(context: Context, client: Client, argv: list[bytes]) -> Reply:
    require_node(context, argv)
    return replies.EMPTY_ARRAY


def failure_reports(context: Context, client: Client, argv: list[bytes]) -> Reply:
    require_node(context, argv)
    return replies.ZERO


# Keys


def hash_slot(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards_of(context)
    return replies.integer(hash_slot_of(argv[2]))


class HashSlotWork(Work):
    """The keys of a hash slot, at most so many. Nothing is kept by hash slot, so all keys are looked at, a slice a
    turn; a key that comes or goes meanwhile may be told or not.
    """

    def __init__(self, wanted: int, count: int) -> None:
        self.names: list[bytes] = []
        self._wanted = wanted
        self._count = count
        self._cursor = 0

    @abstractmethod
    def finish(self, context: Context, client: Client) -> bytes | None:
        """The reply."""

    def step(self, context: Context) -> bool:
        keyspace, count = context.replica.keyspace, self._count
        self._cursor, names = keyspace.orders[0].read(self._cursor, KEYS_READ)
        found = [name for name in names if hash_slot_of(name) == self._wanted]
        self.names += [name for name in found if keyspace.peek((0, name)) is not None]
        return self._cursor == 0 or len(self.names) >= count

    def release(self) -> None:
        """It holds nothing."""


class KeyCountWork(HashSlotWork):
    def finish(self, context: Context, client: Client) -> bytes | None:
        return replies.integer(len(self.names))


class KeyNamesWork(HashSlotWork):
    def finish(self, context: Context, client: Client) -> bytes | None:
        return replies.bulk_array(self.names[: self._count])


def key_count(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards = shards_of(context)
    wanted = integer(argv[2])
    if not 0 <= wanted < HASH_SLOTS:
        raise CommandError(INVALID_SLOT)
    return begin(context, client, KeyCountWork(wanted, I64_MAX)) if shards.owns(wanted) else replies.ZERO


def key_names(context: Context, client: Client, argv: list[bytes]) -> Reply:
    shards = shards_of(context)
    wanted, count = integer(argv[2]), integer(argv[3])
    if not 0 <= wanted < HASH_SLOTS or count < 0:
        raise CommandError(INVALID_SLOT_OR_COUNT)
    if count == 0 or not shards.owns(wanted):
        return replies.EMPTY_ARRAY
    return begin(context, client, KeyNamesWork(wanted, count))


# Subcommand, what answers it, arity, flags, version, syntax.
ClusterRow = tuple[str, Function, int, str, str, str]
ADMIN: Final = "admin stale no_async_loading"
ROWS: list[ClusterRow] = [
    ("addslots", refuse, -3, ADMIN, "3.0.0", "slot#..."),
    ("addslotsrange", refuse, -4, ADMIN, "7.0.0", "range:(start-slot# end-slot#)..."),
    ("bumpepoch", refuse, 2, ADMIN, "3.0.0", ""),
    ("count-failure-reports", failure_reports, 3, "admin stale", "3.0.0", "node-id"),
    ("countkeysinslot", key_count, 3, "stale", "3.0.0", "slot#"),
    ("delslots", refuse, -3, ADMIN, "3.0.0", "slot#..."),
    ("delslotsrange", refuse, -4, ADMIN, "7.0.0", "range:(start-slot# end-slot#)..."),
    ("failover", refuse, -2, ADMIN, "3.0.0", "[options:<FORCE | TAKEOVER>]"),
    ("flushslots", refuse, 2, ADMIN, "3.0.0", ""),
    ("forget", refuse, 3, ADMIN, "3.0.0", "node-id"),
    ("getkeysinslot", key_names, 4, "stale", "3.0.0", "slot# count#"),
    ("help", help_text, 2, "loading stale", "5.0.0", ""),
    ("info", facts, 2, "stale", "3.0.0", ""),
    ("keyslot", hash_slot, 3, "stale", "3.0.0", "key-name"),
    ("links", links, 2, "stale", "7.0.0", ""),
    ("meet", refuse, -4, ADMIN, "3.0.0", "ip port# [cluster-bus-port#@4.0.0]"),
    ("myid", own_id, 2, "stale", "3.0.0", ""),
    ("myshardid", own_shard_id, 2, "stale", "7.2.0", ""),
    ("nodes", nodes, 2, "stale", "3.0.0", ""),
    ("replicas", replicas, 3, "admin stale", "5.0.0", "node-id"),
    ("replicate", refuse, 3, ADMIN, "3.0.0", "node-id"),
    ("reset", refuse, -2, "admin noscript stale", "3.0.0", "[reset-type:<HARD | SOFT>]"),
    ("saveconfig", refuse, 2, ADMIN, "3.0.0", ""),
    ("set-config-epoch", refuse, 3, ADMIN, "3.0.0", "config-epoch#"),
    (
        "setslot",
        refuse,
        -4,
        ADMIN,
        "3.0.0",
        "slot# subcommand:<IMPORTING importing=node-id | MIGRATING migrating=node-id | NODE node=node-id | STABLE>",
    ),
    ("shards", groups, 2, "loading stale", "7.0.0", ""),
    ("slaves", replicas, 3, "admin stale", "3.0.0", "node-id"),
    (
        "slot-stats",
        refuse,
        -4,
        "loading stale",
        "8.2.0",
        "filter:<SLOTSRANGE slotsrange:(start-slot# end-slot#) |"
        " ORDERBY orderby:(metric [LIMIT limit#] [order:<ASC | DESC>])>",
    ),
    ("slots", slots, 2, "loading stale", "3.0.0", ""),
]
SUMMARIES: Final = {
    "count-failure-reports": "Returns the number of failure reports for a shard: none.",
    "countkeysinslot": "Returns the number of keys in a hash slot.",
    "getkeysinslot": "Returns the key names in a hash slot.",
    "help": "Returns helpful text about the different subcommands.",
    "info": "Returns information about the state of a shard.",
    "keyslot": "Returns the hash slot for a key.",
    "links": "Returns a list of all links between shards: none.",
    "myid": "Returns the ID of a shard.",
    "myshardid": "Returns the ID that a shard would share with replicas.",
    "nodes": "Returns the map of a region's shards, as a text.",
    "replicas": "Lists the replicas of a shard: none.",
    "shards": "Returns the map of a region's shards.",
    "slaves": "Lists the replicas of a shard: none.",
    "slots": "Returns which shard serves which hash slots.",
}
NO_CHANGE: Final = "Refused: the map of shards is fixed."


def subcommand(row: ClusterRow) -> Command:
    name, answer, arity, flags, since, syntax = row
    summary = SUMMARIES.get(name, NO_CHANGE)
    return Command(f"cluster|{name}", answer, arity=arity, flags=flags, since=since, summary=summary, syntax=syntax)


def mode(name: str, flags: str, summary: str) -> Command:
    return Command(
        name,
        accept,
        arity=1,
        flags=flags,
        categories="connection",
        since="3.0.0",
        group="cluster",
        summary=summary,
    )


COMMANDS: list[Command] = [
    Command(
        "cluster",
        arity=-2,
        since="3.0.0",
        group="cluster",
        summary="A container for Redis Cluster commands.",
        subcommands=[subcommand(row) for row in ROWS],
    ),
    mode("readonly", "loading stale fast", "Changes nothing: a shard has no replicas to read from."),
    mode("readwrite", "loading stale fast", "Changes nothing: a shard has no replicas to read from."),
    mode("asking", "fast", "Changes nothing: hash slots do not move between shards."),
]
