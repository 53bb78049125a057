"""CRDT.MEMBERS and CRDT.EVICT: who belongs to the cluster, what each member keeps others from forgetting, and its end.

A row for each origin that is known. `state`:

    member      it joined; tombstones and the log wait until it has them on its disk
    newcomer    it is known and has not joined yet; it counts too
    followed    a newer origin of its region has joined, and soon speaks for it
    evicted     it no longer counts; creates of groups above `through` are void

`held-back-bytes` is how much of this region's log is kept for it. An eviction cannot be taken back: the origin's region
comes back as a new origin, with its data, and loses the groups that it created since this region last heard from it.
"""

from __future__ import annotations

from crdtstream.commands.command import Command
from crdtstream.commands.context import Client, CommandError, Context, Reply, shown
from crdtstream.commands.regions import LINK_OPEN, LINK_SELF, LINK_TRANSFER, lacking, origin_name
from crdtstream.core.causality import INCARNATION_MAX, REGION_MAX, incarnation_of, region_of
from crdtstream.protocols import replies

NOT_EVICTED = -1
UNLINKED = "none"


def members(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.array([member_row(context, slot, client.protocol) for slot in known_slots(context)])


def known_slots(context: Context) -> list[int]:
    """Members, evicted ones, this origin, and whoever was met."""
    met = [peer.slot for peer in context.peers if peer.slot]
    own = [context.replica.slot] if context.origin is not None else []
    return sorted({*context.replica.members.slots(), *met, *own}, key=lambda slot: (region_of(slot), slot))


def state_of(context: Context, slot: int) -> str:
    table = context.replica.members
    if table.is_evicted(slot):
        return "evicted"
    if table.is_followed(slot):
        return "followed"
    return "member" if table.is_joined(slot) else "newcomer"


def member_row(context: Context, slot: int, protocol: int) -> bytes:
    table, own = context.replica.members, context.replica.vector
    itself = slot == context.replica.slot
    durable = context.durable if itself else context.progress.durable_of(slot)
    applied = own if itself else context.progress.applied_of(slot)
    evicted = table.is_evicted(slot)
    items = [
        replies.bulk(b"origin"),
        replies.bulk(origin_name(slot).encode()),
        replies.bulk(b"region"),
        replies.integer(region_of(slot)),
        replies.bulk(b"incarnation"),
        replies.integer(incarnation_of(slot)),
        replies.bulk(b"slot"),
        replies.integer(slot),
        replies.bulk(b"state"),
        replies.bulk(state_of(context, slot).encode()),
        replies.bulk(b"through"),
        replies.integer(table.end_of(slot) if evicted else NOT_EVICTED),
        replies.bulk(b"link"),
        replies.bulk(link_of(context, slot).encode()),
        replies.bulk(b"lag"),
        replies.integer(lacking(own, applied)),
        replies.bulk(b"durable-lag"),
        replies.integer(lacking(own, durable)),
        replies.bulk(b"held-back-bytes"),
        replies.integer(held_back(context, slot)),
    ]
    return replies.mapping(items, protocol)


def link_of(context: Context, slot: int) -> str:
    if slot == context.replica.slot:
        return LINK_SELF
    return next((peer.link for peer in context.peers if peer.slot == slot), UNLINKED)


def held_back(context: Context, slot: int) -> int:
    """Nothing is kept for this region itself, or for who was evicted."""
    table = context.replica.members
    if slot in (0, context.replica.slot) or table.is_evicted(slot) or context.retention is None:
        return 0
    return context.retention.held_back(slot)


def evict(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CRDT.EVICT region | origin [FORCE]: a map of each origin that was evicted, to the last counter that counts."""
    forced = len(argv) == 3 and argv[2].upper() == b"FORCE"
    if len(argv) > 3 or (len(argv) == 3 and not forced):
        raise CommandError("ERR syntax error: CRDT.EVICT region|origin [FORCE]")
    slots = named_slots(context, argv[1])
    table = context.replica.members
    leaving = [slot for slot in slots if not table.is_evicted(slot)]
    if not leaving:
        raise CommandError(f"ERR {shown(argv[1])} was evicted already")
    linked = [peer.name for peer in context.peers if peer.slot in leaving and peer.link in (LINK_OPEN, LINK_TRANSFER)]
    if linked and not forced:
        raise CommandError(
            f"ERR region {linked[0]} is linked now: it would lose the groups that it has created and this region has"
            " not heard of, and come back as a new origin; add FORCE if that is meant"
        )
    refuse_to_end_all(context, leaving)
    items: list[bytes] = []
    for slot in leaving:
        context.replica.evict_member(slot)
        items += [replies.bulk(origin_name(slot).encode()), replies.integer(table.end_of(slot))]
    return replies.mapping(items, client.protocol)


def refuse_to_end_all(context: Context, leaving: list[int]) -> None:
    """Whoever was admitted by who leaves may have to be admitted anew: somebody must be left to do that."""
    replica = context.replica
    ends = {slot: replica.vector.get(slot) for slot in leaving}
    if not replica.members.is_evicted(replica.slot) and not replica.members.left_after(ends, replica.slot):
        gone = region_of(leaving[0])
        raise CommandError(
            f"ERR region {gone} has admitted this origin, {origin_name(replica.slot)}, which would end with it, and no"
            f" member would be left to admit it anew: start region {gone} again instead, with an empty data directory"
            " if its own is lost; it comes back as a new origin that takes the old one's place"
        )


def named_slots(context: Context, word: bytes) -> list[int]:
    """The origins of a region, by its number or its name, or the one origin `region.incarnation`."""
    number, dot, incarnation = word.partition(b".")
    own = context.about
    if dot and number.isdigit() and incarnation.isdigit():
        region = int(number)
        slots = [slot for slot in known_slots(context) if origin_name(slot).encode() == word]
    else:
        region = region_named(context, word)
        slots = [slot for slot in known_slots(context) if region_of(slot) == region]
    if region == own.region:
        raise CommandError(f"ERR region {own.name} ({own.region}) cannot evict itself: ask another region to do it")
    if not slots:
        raise CommandError(
            f"ERR no member is called {shown(word)}: name a region by its name or its number (1 to {REGION_MAX}), or an"
            f" origin as REGION.INCARNATION (0 to {INCARNATION_MAX}); CRDT.MEMBERS lists them"
        )
    return slots


def region_named(context: Context, word: bytes) -> int:
    """0 when there is none of that name."""
    names = {peer.name.encode(): peer.region for peer in context.peers if peer.name}
    names[context.about.name.encode()] = context.about.region
    return names.get(word, int(word) if word.isdigit() and len(word) <= 3 else 0)


COMMANDS: list[Command] = [
    Command("crdt.members", 1, ("readonly", "loading"), 0, 0, 0, members),
    Command("crdt.evict", -2, ("write", "admin", "no_multi"), 0, 0, 0, evict),
]
