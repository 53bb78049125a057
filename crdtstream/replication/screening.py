"""What no sound peer sends, found before it changes anything: a `CodecError` then ends the link that brought it.

A batch that passed the gates may still name what its context does not cover, and a state may hold what its vector does
not cover. Applied, that would not fail here but later, where nobody can refuse it any more: in an effect of this region
that follows from it and that nobody can read, at the next start out of this region's own log.

What lies inside a block of entries is not looked at; see protocols/effect_rows.py. All counters are inclusive.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.entry_id import EntryId
from crdtstream.core.replica import Replica
from crdtstream.core.stream import OriginMeta, Stream
from crdtstream.core.tree_joining import can_join, last_of
from crdtstream.protocols.codec import CodecError
from crdtstream.protocols.transfer_rows import TransferReader


def screen_batch(batch: fx.Batch, replica: Replica) -> None:
    _refuse_unseen(batch)
    _refuse_descending(batch, replica)


def _refuse_unseen(batch: fx.Batch) -> None:
    """An effect speaks of what its context covers, and of earlier effects of its batch."""
    counter = batch.first
    for effect in batch.effects:
        if not isinstance(effect, fx.EntriesAdded):
            for slot, named in _named(effect):
                if named >= counter if slot == batch.slot else not batch.context.contains(slot, named):
                    raise CodecError(f"effect at counter {counter}: it names {slot}:{named}, which its context lacks")
            if isinstance(effect, fx.MemberJoined) and effect.slot == batch.slot:
                raise CodecError(f"effect at counter {counter}: slot {batch.slot} admits itself")
        counter += effect.width()


def _named(effect: fx.Effect) -> list[Dot]:
    """The highest counters of each origin that the effect speaks of."""
    if isinstance(effect, fx.EntriesRemoved):
        return [(slot, high) for slot, ranges in effect.ranges.items() for _, high in ranges]
    if isinstance(effect, fx.StreamDeleted):
        return [(slot, last_of_count(first, added)) for slot, (first, added) in effect.counts.items()]
    if isinstance(effect, fx.Acknowledged):
        return effect.creates
    if isinstance(effect, fx.MemberAdmitted):
        return [(effect.slot, effect.counter)]
    if isinstance(effect, fx.MemberEvicted):
        return [(effect.slot, effect.through)]
    return []


def last_of_count(first: int, added: int) -> int:
    """A count that was opened at `first` and has so many adds reaches up to this counter at least."""
    return first + added - 1 if added else 0


def _refuse_descending(batch: fx.Batch, replica: Replica) -> None:
    """Entries of an origin ascend until it deletes the key."""
    tops: dict[fx.Key, EntryId | None] = {}
    for effect in batch.effects:
        if isinstance(effect, fx.EntriesAdded):
            key, block = effect.key, effect.block
            top = tops[key] if key in tops else replica.last_id_of(key, batch.slot)
            first = block.id_at(effect.low)
            if top is not None and first <= top:
                raise CodecError(f"slot {batch.slot} adds entry {first} after {top}")
            tops[key] = block.id_at(effect.high - 1)
        elif isinstance(effect, fx.StreamDeleted):
            tops[effect.key] = None


def screen_state(state: TransferReader, replica: Replica) -> None:
    for key, stream in state.streams.items():
        for slot, named in _held(stream):
            if not state.vector.contains(slot, named):
                raise CodecError(f"key {key[1]!r} of a state holds {slot}:{named}, which the state's vector lacks")
        for slot, meta in stream.metas.items():
            if meta.voided > meta.added or (meta.added and not meta.first):
                raise CodecError(f"key {key[1]!r} of a state: the counts of slot {slot} contradict each other")
        _refuse_unjoinable(key, stream, state.vector, replica)


def _held(stream: Stream) -> list[Dot]:
    held = [*stream.deleted.items()]
    for destroyed in stream.destroyed.values():
        held += destroyed.items()
    for group in stream.groups.values():
        held += group.creates
    for slot, meta in stream.metas.items():
        held += [(slot, counter) for counter in _counters_of(meta)]
    for slot, tree in stream.trees.items():
        last = last_of(tree)
        if last is not None:
            held.append((slot, last[1]))
    return held


def _counters_of(meta: OriginMeta) -> list[int]:
    registers = [meta.add_counter, meta.set_counter, meta.removed_counter, meta.offset_counter, meta.expiry_counter]
    return [*registers, meta.trimmed_to, meta.first, last_of_count(meta.first, meta.added)]


def _refuse_unjoinable(key: fx.Key, theirs: Stream, vector: VersionVector, replica: Replica) -> None:
    mine = replica.databases[key[0]].get(key[1]) or Stream()
    for slot, tree in theirs.trees.items():
        if not can_join(mine.trees.get(slot), replica.vector.get(slot), tree):
            raise CodecError(f"key {key[1]!r} of a state: entries of slot {slot} do not lie above those before them")
