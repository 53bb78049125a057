"""CRDT.MEMBERS, CRDT.EVICT and CRDT.STARTOVER: list members, evict a member, replace this region's state.

CRDT.MEMBERS returns a row for each known origin. Its `state` is one of:

    member      it belongs to the cluster; tombstones and the log are retained until it has them on its disk. This holds
                for an origin whose admission is void (`through` is 0) too, until its region comes back
    newcomer    it is known, and no region has sponsored it yet
    followed    it has ended, because its region came back as another origin
    evicted     it has ended by an operator's eviction; its group creates above `through` are void

`incarnation` is the number of earlier origins of its region. `held-back-bytes` is how much of this region's log is
retained for it. An eviction cannot be undone: the region comes back as a new origin with its data, but loses the groups
that it created after this region last heard from it.

CRDT.STARTOVER replies as soon as starting over has begun; INFO replication shows the progress. Clients that wait are
unblocked with an error, and commands of all clients are answered -LOADING until it is done.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.cluster import LINK_OPEN, LINK_SELF, LINK_TRANSFER, PeerStatus, lacking
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.core.values.causality import REGION_MAX, origin_name, region_of
from crdtstream.protocols import replies

NOT_ENDED = -1
UNLINKED = "none"


def members(context: Context, client: Client, argv: list[bytes]) -> Reply:
    peers = context.cluster.neighbours.peers()
    return replies.array(
        [member_row(context, origin, peers, client.protocol) for origin in known_origins(context, peers)]
    )


def known_origins(context: Context, peers: list[PeerStatus]) -> list[int]:
    """The members, the evicted origins, this region's origin, and the origins that this region has linked to."""
    met = [peer.origin for peer in peers if peer.origin]
    applied = context.replica.applied
    own = [applied.origin] if applied.origin else []
    return sorted({*applied.members.origins(), *met, *own}, key=lambda origin: (region_of(origin), origin))


def state_of(context: Context, origin: int) -> str:
    table = context.replica.applied.members
    if table.is_evicted(origin):
        return "followed" if table.is_succeeded(origin) else "evicted"
    return "member" if origin in table.joined() else "newcomer"


def member_row(context: Context, origin: int, peers: list[PeerStatus], protocol: int) -> bytes:
    cluster, table, own = context.cluster, context.replica.applied.members, context.replica.applied.vector
    itself = origin == context.replica.applied.origin
    durable = cluster.neighbours.durable() if itself else cluster.progress.durable_of(origin)
    applied = own if itself else cluster.progress.applied_of(origin)
    items = [
        replies.bulk(b"origin"),
        replies.bulk(origin_name(origin).encode()),
        replies.bulk(b"region"),
        replies.integer(region_of(origin)),
        replies.bulk(b"name"),
        replies.bulk(cluster.neighbours.name_of(region_of(origin)).encode()),
        replies.bulk(b"incarnation"),
        replies.integer(cluster.neighbours.count_of(origin)),
        replies.bulk(b"slot"),
        replies.integer(origin),
        replies.bulk(b"state"),
        replies.bulk(state_of(context, origin).encode()),
        replies.bulk(b"through"),
        replies.integer(table.end_of(origin) if table.has_ended(origin) else NOT_ENDED),
        replies.bulk(b"link"),
        replies.bulk(link_of(context, origin, peers).encode()),
        replies.bulk(b"lag"),
        replies.integer(lacking(own, applied)),
        replies.bulk(b"durable-lag"),
        replies.integer(lacking(own, durable)),
        replies.bulk(b"held-back-bytes"),
        replies.integer(context.cluster.held_back(context.replica.applied, origin)),
        replies.bulk(b"reads-format"),
        replies.integer(cluster.neighbours.format_of(region_of(origin))),
    ]
    return replies.mapping(items, protocol)


def link_of(context: Context, origin: int, peers: list[PeerStatus]) -> str:
    if origin == context.replica.applied.origin:
        return LINK_SELF
    return next((peer.link for peer in peers if peer.origin == origin), UNLINKED)


def evict(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.EVICT region | origin [FORCE]: returns each evicted origin with the last counter at which its group creates
    are valid.
    """
    forced = len(argv) == 3 and argv[2].upper() == b"FORCE"
    if len(argv) > 3 or (len(argv) == 3 and not forced):
        raise CommandError("ERR syntax error: CRDT.EVICT region|origin [FORCE]")
    admission, peers = context.cluster.admission, context.cluster.neighbours.peers()
    origins = named_origins(context, peers, argv[1])
    if admission is not None and admission.is_outside:
        # The others would take its eviction for a sign of a cluster, and found none.
        raise CommandError(
            "ERR this region belongs to no cluster yet, so it cannot evict: wait until it is admitted (INFO"
            " replication, admitted:1), or ask a region that is"
        )
    own, table = context.replica.applied.origin, context.replica.applied.members
    leaving = [origin for origin in origins if not table.is_evicted(origin)]
    if forced and not leaving:
        # Two regions evicted each other: FORCE adds this region's own eviction of that region (membership.py).
        leaving = [
            origin for origin in origins if not table.is_succeeded(origin) and own not in table.evictors_of(origin)
        ]
    if not leaving:
        raise CommandError(f"ERR {shown(argv[1])} is already evicted")
    linked = [peer.name for peer in peers if peer.origin in leaving and peer.link in (LINK_OPEN, LINK_TRANSFER)]
    if linked and not forced:
        raise CommandError(
            f"ERR region {linked[0]} is linked now: evicting it loses the groups that it created and this region has"
            " not received, and it comes back as a new origin; add FORCE to evict it nevertheless"
        )
    items: list[bytes] = []
    for origin in leaving:
        context.replica.evict_member(origin)
        items += [replies.bulk(origin_name(origin).encode()), replies.integer(table.end_of(origin))]
    return replies.mapping(items, client.protocol)


def replace_state(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.STARTOVER region: replace this region's state by that region's, and hand over what only this region has."""
    start_over, peers = context.cluster.start_over, context.cluster.neighbours.peers()
    source = region_named(context, peers, argv[1])
    known = [context.settings.config.region] + [peer.region for peer in peers]
    if not source or source not in known:
        raise CommandError(
            f"ERR unknown region {shown(argv[1])}: give a region's name or number as listed by CRDT.REGIONS"
        )
    assert start_over is not None
    reason = start_over.begin(source, context.now_ms)
    if reason is not None:
        raise CommandError(f"ERR {reason}")
    for waiter in context.parking.all():
        context.unpark(waiter.client)
        context.outbox.append((waiter.client, replies.error(b"UNBLOCKED " + context.standing.loading.encode())))
    return replies.OK


def named_origins(context: Context, peers: list[PeerStatus], word: bytes) -> list[int]:
    """The origins of a region given by number or name, or the one origin with this name."""
    number, dot, _ = word.partition(b".")
    own = context.settings.config
    if dot and number.isdigit() and len(number) <= 3:
        region = int(number)
        origins = [origin for origin in known_origins(context, peers) if origin_name(origin).encode() == word]
    else:
        region = region_named(context, peers, word)
        origins = [origin for origin in known_origins(context, peers) if region_of(origin) == region]
    if region == own.region:
        raise CommandError(
            f"ERR region {own.name} ({own.region}) cannot evict itself: ask another region to do it, or restart this"
            " one with --replace if another process of it is gone for good"
        )
    if not origins:
        raise CommandError(
            f"ERR unknown member {shown(word)}: give a region's name or number (1 to {REGION_MAX}), or an origin as"
            f" listed by CRDT.MEMBERS{nameless(context, peers)}"
        )
    return origins


def nameless(context: Context, peers: list[PeerStatus]) -> str:
    """What to give for members whose name nobody told this region."""
    names = context.cluster.neighbours
    regions = sorted({region_of(origin) for origin in known_origins(context, peers)} - {context.settings.config.region})
    unnamed = ", ".join([str(region) for region in regions if not names.name_of(region)])
    return f"; the name is not known here of region {unnamed}: give its number" if unnamed else ""


def region_named(context: Context, peers: list[PeerStatus], word: bytes) -> int:
    """The number of the region with this name or number; 0 for a name that is not known."""
    own, neighbours = context.settings.config, context.cluster.neighbours
    regions = {region_of(origin) for origin in known_origins(context, peers)} | {peer.region for peer in peers}
    named = sorted(region for region in regions if region and neighbours.name_of(region).encode() == word)
    if own.name.encode() == word:
        named = [own.region, *[region for region in named if region != own.region]]
    if len(named) > 1:
        numbers = " and ".join([str(region) for region in named])
        raise CommandError(f"ERR regions {numbers} are both named {shown(word)}: give a region's number")
    return named[0] if named else int(word) if word.isdigit() and len(word) <= 3 else 0


COMMANDS: list[Command] = [
    Command(
        "crdt.members",
        members,
        arity=1,
        flags="readonly loading",
        since="0.1.0",
        group="server",
        summary="Returns the members of the cluster, and how much of the log is retained for each.",
    ),
    Command(
        "crdt.evict",
        evict,
        arity=-2,
        flags="write frees admin no_multi",
        since="0.1.0",
        group="server",
        summary="Ends the membership of a region's origins for ever.",
        syntax="member:<region# | origin> [FORCE]",
    ),
    Command(
        "crdt.startover",
        replace_state,
        arity=2,
        flags="write admin no_multi",
        since="0.1.0",
        group="server",
        summary="Replaces this region's state by another region's, and hands over what only this region has.",
        syntax="region",
    ),
]
