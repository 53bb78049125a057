"""Rejects what no correct peer sends, before it changes anything: a `CodecError` ends the link that delivered it.

A batch that passed the inbox may still name dots that its context does not cover, and a state may hold dots that its
vector does not cover. Applied, they would not fail here but later, where no link is left to close: in an effect of this
region that builds on them and that no peer can decode, or in the replay of this region's own log at the next start.

A dot `origin:counter` that an effect **names** must be covered by the batch's context (what the batch adds to it, and
what the origin's earlier batches had), or be an earlier counter of the same origin. What each kind names:

    effect                          must be covered                                     besides
    EntriesAdded                    -                                                   IDs ascend, see below
    EntriesRemoved                  the highest counter of each range                   -
    StreamDeleted                   first + added - 1 of each count it voids            -
    Acknowledged                    the create dots of the group                        -
    MemberAdmitted                  the Join that admits it: origin:counter               -
    MemberEvicted                   origin:through                                        -
    all other kinds                 they name no dot                                    -

    in a state                      must be covered by the state's vector               besides
    deleted, destroyed              every dot                                           -
    groups                          every create dot                                    -
    metas (counts, registers)       every counter, and first + added - 1                voided <= added; first if added
    trees                           the last counter of each                            IDs and counters ascend
    the whole                       -                                                   no fork, see below

IDs ascend: an origin's entries in one key have ascending IDs until that origin deletes the key. Entry payloads are not
validated here; see protocols/effect_rows.py. All counters are inclusive.

Fork: if two processes have made effects as one origin, joining a state would treat acknowledged entries of one process
as removed. Such a state is rejected where the difference is visible (core/forks.py), with the remedy in the error.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core import effects as fx
from crdtstream.core.effects import last_of_count
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.block_list import NO_TAIL
from crdtstream.core.forks import forks
from crdtstream.core.joining import can_join, last_of
from crdtstream.core.replica import Replica
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector, origin_name
from crdtstream.core.whole_state import WholeState
from crdtstream.protocols.codec import CodecError
from crdtstream.replication.values.remedy import REMEDY

NOTHING: Final = VersionVector()


class ForgottenContext(Exception):
    """The context to which a batch adds is not known here any more (`Applied.forget_contexts`)."""


def screen_batch(batch: fx.Batch, replica: Replica) -> None:
    """Raise CodecError for a batch that no correct peer sends; ForgottenContext if it cannot be applied here."""
    if batch.first != 1 and batch.origin not in replica.applied.contexts:
        raise ForgottenContext
    tops: dict[fx.Key, Block] = {}
    counter = batch.first
    for effect in batch.effects:
        if isinstance(effect, fx.EntriesAdded):
            _refuse_descending(effect, batch.origin, tops, replica)
        else:
            _refuse_unseen(effect, counter, batch, replica)
        if isinstance(effect, fx.StreamDeleted):
            tops[effect.key] = NO_TAIL
        counter += effect.width


def _refuse_unseen(effect: fx.Effect, counter: int, batch: fx.Batch, replica: Replica) -> None:
    """Reject an effect that names a dot outside its context and the earlier effects of its batch."""
    before = replica.applied.contexts.get(batch.origin, NOTHING)
    for origin, named in effect.named_dots():
        seen = batch.context.contains(origin, named) or before.contains(origin, named)
        # Its own origin may be named up to the counter before this effect; any other one as far as the context goes.
        if named >= counter if origin == batch.origin else not seen:
            raise CodecError(f"effect at counter {counter} names {origin}:{named}, which its context does not cover")


def _refuse_descending(added: fx.EntriesAdded, origin: int, tops: dict[fx.Key, Block], replica: Replica) -> None:
    """Reject an ID that does not ascend; `tops` holds the last block of each key in the batch so far, that of no blocks
    after a DEL.
    """
    key, block = added.key, added.block
    if key in tops:
        top = tops[key]
    else:
        stream = replica.keyspace.databases[key[0]].get(key[1])
        tree = None if stream is None else stream.trees.get(origin)
        top = NO_TAIL if tree is None else tree.tail
    if not block.lies_above(added.low, top):
        cause = "as happens after the memory of a process was cloned"
        first, last = block.id_at(added.low), top.id_at(top.count - 1)
        raise CodecError(f"origin {origin} adds entry {first} after {last}, {cause}. {REMEDY}")
    tops[key] = block


def screen_state(state: WholeState, replica: Replica) -> None:
    forked = forks(replica.keyspace.streams(), replica.applied.vector, state.streams.items(), state.vector)
    for origin, counter in forked.items():
        dot = f"{origin_name(origin)}:{counter}"
        cause = f"{dot} is another entry here, as happens after the memory of a process was cloned"
        raise CodecError(f"a state is rejected: {cause}. {REMEDY}")
    for key, stream in state.streams.items():
        for origin, named in _held(stream):
            if not state.vector.contains(origin, named):
                raise CodecError(f"key {key[1]!r} of a state holds {origin}:{named}, which its vector does not cover")
        for origin, meta in stream.metas.items():
            if meta.voided > meta.added or (meta.added and not meta.first):
                raise CodecError(f"key {key[1]!r} of a state: the counts of origin {origin} are inconsistent")
        _refuse_unjoinable(key, stream, replica)


def _held(stream: Stream) -> list[Dot]:
    held = [*stream.deleted.items()]
    for destroyed in stream.destroyed.values():
        held += destroyed.items()
    for group in stream.groups.values():
        held += group.creates
    for origin, meta in stream.metas.items():
        held += [(origin, counter) for counter in _counters_of(meta)]
    for origin, tree in stream.trees.items():
        last = last_of(tree)
        if last is not None:
            held.append((origin, last[1]))
    register = None if stream.producers is None else stream.producers.register
    for _, adds in [] if register is None else register.items():
        held += [add.dot for add in adds]
    return held


def _counters_of(meta: OriginMeta) -> list[int]:
    registers = [meta.add_counter, meta.set_counter, meta.removed_counter, meta.offset_counter, meta.expiry_counter]
    return [*registers, meta.trimmed_to, meta.dropped_counter, meta.first, last_of_count(meta.first, meta.added)]


def _refuse_unjoinable(key: fx.Key, theirs: Stream, replica: Replica) -> None:
    mine = replica.keyspace.databases[key[0]].get(key[1]) or Stream()
    for origin, tree in theirs.trees.items():
        if not can_join(mine.trees.get(origin), replica.applied.vector.get(origin), tree):
            raise CodecError(f"key {key[1]!r} of a state: entries of origin {origin} do not ascend")
