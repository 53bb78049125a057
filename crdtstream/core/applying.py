"""Applying effects, whatever their source, and recording which keys and groups changed.

An effect received from another origin, one replayed from this region's log and one that was just prepared here are
applied by the same code, so replaying the log rebuilds the state exactly. A whole state received from another region
is joined instead (core/joining.py).

For each origin the context of its last batch is kept, because the next batch names only what its context gained. Every
context names all earlier origins, so keeping all of them would cost memory quadratic in the number of starts: the
contexts of ended origins are dropped.

Right after a checkpoint is loaded, some keys are ahead of the vector, because they were captured while the node went on
serving. Each such key is recorded with the log position up to which it is complete, and replay skips it up to there.

Two kinds of change are recorded: *touched* keys, whose readers may find something new, and *dirty* groups, whose runs
may have grown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from crdtstream.core import effects as fx
from crdtstream.core.changed import Changed
from crdtstream.core.conflicts import CREATION_VOID, NO_DOT, Conflicts
from crdtstream.core.effects import Batch, Effect, Key
from crdtstream.core.formats import NAMES_FORMAT, PROPERTIES_FORMAT, needs_format
from crdtstream.core.groups.applying_facts import apply_to_group, apply_to_producers
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.positions import reset_group
from crdtstream.core.joining import join_stream
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.local_facts import LocalFact, ProducersFact
from crdtstream.core.members import Members
from crdtstream.core.names.acknowledging import record_runs
from crdtstream.core.streams.properties import with_set
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.whole_state import WholeState

StampedFact = tuple[int, LocalFact]


class Applied:
    """What was applied: all effects up to `vector`, those on keys to the keyspace that it is given, the others to
    `members`. `origin` is this region's origin.
    """

    __slots__ = (
        "_captured",
        "_fact_count",
        "_news",
        "_waiting_facts",
        "changed",
        "conflicts",
        "contexts",
        "format_version",
        "keyspace",
        "members",
        "origin",
        "vector",
    )

    def __init__(self, origin: int, keyspace: Keyspace, changed: Changed) -> None:
        self.origin = origin
        self.keyspace = keyspace
        self.changed = changed
        self.vector = VersionVector()
        self.contexts: dict[int, VersionVector] = {}
        # Origins from which something was applied since the last local batch: what the next context has gained.
        self._news: dict[int, None] = {}
        self.members = Members()
        self.conflicts = Conflicts(keyspace)
        # The format of batches that one needs to read all that was applied; 0 for the oldest.
        self.format_version = 0
        self._waiting_facts: list[StampedFact] = []
        self._captured: dict[Key, int] = {}
        self._fact_count = 0

    def changes(self) -> int:
        """How many changes there were: effects of all origins, and the local facts since the checkpoint that was
        loaded.
        """
        return self.vector.total() + self._fact_count

    def discount(self) -> None:
        """Do not count the last local fact as a change."""
        self._fact_count -= 1

    def counter(self) -> int:
        """The last counter of this region's origin."""
        return self.vector.get(self.origin)

    def raise_format(self, format_version: int) -> None:
        """Something was applied that only this format of batches and later ones can say."""
        self.format_version = max(self.format_version, format_version)

    def _raise_format_of(self, streams: dict[Key, Stream]) -> None:
        if any(needs_format(stream) for stream in streams.values()):
            self.raise_format(PROPERTIES_FORMAT)

    def become(self, origin: int) -> None:
        """Go on as another origin, whose first context names everything."""
        self.origin = origin
        self._news.clear()

    def drain_news(self) -> VersionVector:
        """What the context gained since the last local batch; nothing was applied since the current batch was
        opened.
        """
        known = self.contexts.get(self.origin)
        if known is None:
            known = self.contexts[self.origin] = VersionVector()
            news = self.vector.copy()
            news.drop(self.origin)
        else:
            news = VersionVector({origin: self.vector.get(origin) for origin in self._news})
        self._news.clear()
        known.merge(news)
        known.advance(self.origin, self.counter())
        return news

    # Batches and facts

    def apply_batch(self, batch: Batch, position: int = 0) -> None:
        """Apply a batch that passed both gates of the inbox, or one read from the local log at this log position."""
        assert self.vector.admits(batch.origin, batch.first, batch.context), (
            f"batch {batch.first}..{batch.last} of origin {batch.origin} was applied before its predecessors"
        )
        context = self._begin_context(batch)
        counter = batch.first
        self._news[batch.origin] = None
        if self._waiting_facts and batch.origin == self.origin:
            self._release_facts()
        for effect in batch.effects:
            if not self._captured or self._captured.get(effect.key, 0) < position:
                self.apply(batch.origin, counter, context, effect)
            counter += effect.width
            context.advance(batch.origin, counter - 1)
            self.vector.advance(batch.origin, counter - 1)
            if self._waiting_facts and batch.origin == self.origin:
                self._release_facts()

    def _begin_context(self, batch: Batch) -> VersionVector:
        """The context of the batch in full; it advances as the effects of the batch are applied."""
        context = self.contexts.get(batch.origin)
        if context is None:
            assert batch.first == 1, f"the context of origin {batch.origin} before counter {batch.first} is not known"
            context = self.contexts[batch.origin] = VersionVector()
        # It names what came before it of its own origin too.
        context.merge(batch.context)
        return context

    def forget_contexts(self, stable: VersionVector) -> None:
        """Drop the contexts of ended origins once every counted member has all of their effects.

        A directory that was away may still bring another batch of such an origin. Its context is then unknown, so the
        peer that sends it is asked for a full state transfer (replication/links/handover.py).
        """
        for origin in [origin for origin in self.contexts if self.members.is_evicted(origin)]:
            if stable.contains(origin, self.vector.get(origin)):
                del self.contexts[origin]

    def replay_facts(self, facts: list[StampedFact], through: int, position: int = 0) -> None:
        """Queue local facts read from the log at this log position.

        Each waits until the local effects before it are applied. All of them wait for the batch of their turn, which
        ends at local counter `through`: a turn is replayed as a whole or not at all.
        """
        if self._captured:
            facts = [fact for fact in facts if self._captured.get(fact[1].key, 0) < position]
        self._waiting_facts += facts
        if through <= self.counter():
            self._release_facts()

    def drop_waiting_facts(self) -> int:
        """Discard the facts whose batch was lost with the torn end of the log; returns how many."""
        dropped = len(self._waiting_facts)
        self._waiting_facts.clear()
        return dropped

    def _release_facts(self) -> None:
        counter = self.counter()
        while self._waiting_facts and self._waiting_facts[0][0] <= counter:
            self.apply_fact(self._waiting_facts.pop(0)[1])

    def end_replay(self) -> int:
        """End recovery; returns how many facts were discarded."""
        self._captured.clear()
        self.conflicts.clear()
        return self.drop_waiting_facts()

    # Join

    def join(self, state: WholeState, position: int = 0) -> None:
        """Join another region's state, which is consumed; `position` is its log position if it is read from the
        local log.
        """
        self.conflicts.record_gap()
        self._join_members(state)
        self._join_streams(state, position)
        self._join_contexts(state.contexts, state.vector)
        self.vector.merge(state.vector)

    def _join_streams(self, state: WholeState, position: int) -> None:
        fresh = not any(self.vector.get(origin) for origin, _ in state.vector.items())
        self._raise_format_of(state.streams)
        for key in sorted({*self.keyspace.remembered_keys(), *state.streams}):
            if not self._captured or self._captured.get(key, 0) < position:
                self._join_key(key, state.streams.get(key) or Stream(), state, fresh)

    def _join_contexts(self, contexts: dict[int, VersionVector], vector: VersionVector) -> None:
        """For each origin, take the last context from the side that has applied more of its batches."""
        for origin, counter in vector.items():
            if counter > self.vector.get(origin):
                self._news[origin] = None
                self.contexts.pop(origin, None)
                if origin in contexts:
                    self.contexts[origin] = contexts[origin]

    def _join_key(self, key: Key, theirs: Stream, state: WholeState, fresh: bool) -> None:
        """Join one key. With `fresh`, nothing of that state was ever seen here: a key without groups that does not
        exist here can be adopted as it is.
        """
        keyspace = self.keyspace
        keyspace.announce(key)
        if fresh and not theirs.groups and key[1] not in keyspace.databases[key[0]]:
            stream = keyspace.place(key, theirs)
        else:
            stream = keyspace.ensure(key)
            join_stream(stream, self.vector, theirs, state.vector, state.lacking.get(key))
        keyspace.schedule(key, stream)
        self.changed.dirty_all(key, stream)
        self.changed.touched[key] = None
        keyspace.record_remains(key, stream)

    def _join_members(self, state: WholeState) -> None:
        """Join the table of members, and void on both sides the group creates that either knows to be void. Before the
        streams: a void create that met a valid one would leave it what was delivered under the void one.
        """
        self.members.join(state.members, self.vector, state.vector)
        ends = self.members.ends()
        self._void_ended(list(ends))
        for stream in state.streams.values():
            for origin, end in ends.items():
                for name in stream.groups_made_by(origin, end) if stream.groups else ():
                    stream.void_creates(name, origin, end)

    # Starting over

    def replace(self, state: WholeState, position: int = 0) -> None:
        """Replace everything, local facts included, by another region's state, which is consumed; `position` is its log
        position if it is read from the local log.
        """
        self.conflicts.record_gap()
        streams = state.streams
        self._raise_format_of(streams)
        for key in sorted({*self.keyspace.remembered_keys(), *streams}):
            if not self._captured or self._captured.get(key, 0) < position:
                self._replace_key(key, streams.get(key) or Stream(), state.vector)
        self.vector = state.vector.copy()
        self.contexts = state.contexts
        self.members = state.members
        self._news.clear()
        self.changed.dirty.clear()
        self.changed.dirtying = None
        self.changed.touching = None
        self.drop_waiting_facts()

    def _replace_key(self, key: Key, theirs: Stream, vector: VersionVector) -> None:
        self.keyspace.announce(key)
        stream = self.keyspace.place(key, Stream())
        join_stream(stream, VersionVector(), theirs, vector)
        self.keyspace.schedule(key, stream)
        self.changed.touched[key] = None
        self.keyspace.record_remains(key, stream)

    # Checkpoints

    def load(self, vector: VersionVector, contexts: dict[int, VersionVector], members: Members) -> None:
        """Load what a checkpoint has besides its keys, which go to `restore`."""
        self.vector = vector
        self.contexts = contexts
        self.members = members

    def restore(self, key: Key, stream: Stream | None, position: int) -> None:
        """Load a key from a checkpoint that is complete up to this log position; None if the key no longer existed."""
        self._captured[key] = position
        if stream is not None:
            self.keyspace.place(key, stream)
            self.keyspace.schedule_restored(key)
            self.keyspace.record_remains(key, stream)

    # One effect, one fact

    def apply(self, origin: int, counter: int, context: VersionVector, effect: Effect) -> None:
        """Apply one effect; the caller advances the vector."""
        if isinstance(effect, fx.MemberEffect):
            self._void_ended(MEMBER_RULES[type(effect)](self.members, (origin, counter), context, effect))
            return
        key, keyspace, changed = effect.key, self.keyspace, self.changed
        if keyspace.observers:
            keyspace.announce(key)
        stream = keyspace.databases[key[0]].get(key[1])
        if stream is None:
            stream = keyspace.place(key, Stream())
        if isinstance(effect, fx.EntriesAdded):
            block, low, high = effect.block, effect.low, effect.high
            stream.apply_added(origin, counter, effect.first, effect.before, block, low, high)
            if not (stream.deleted or stream.destroyed):
                # It exists now and has no tombstones, so nothing remains to be collected.
                changed.touched[key] = None
                return
            self.conflicts.look_at_adds(key, stream, (origin, counter + high - low - 1), high - low, context)
        elif not _apply_to_stream(Change(self, stream, origin, counter, context), effect):
            keyspace.record_remains(key, stream)
            return
        changed.touched[key] = None
        keyspace.record_remains(key, stream)

    def _void_ended(self, origins: list[int]) -> None:
        """Void the group creates of origins that have ended, or that ended earlier than was known."""
        for origin in origins:
            end = self.members.end_of(origin)
            if self.vector.get(origin) > end:
                for key, group in self.keyspace.void_creates(origin, end):
                    self.changed.touched[key] = None
                    self.changed.dirty[(key, group)] = None
                    self.conflicts.record(CREATION_VOID, key, NO_DOT, (origin, end), group)

    def apply_fact(self, fact: LocalFact) -> None:
        stream = self.keyspace.known(fact.key)
        if stream is not None and isinstance(fact, ProducersFact):
            self._fact_count += 1
            apply_to_producers(stream, fact)
            return
        self.apply_to_group(stream, None if stream is None else stream.groups.get(fact.group), fact)

    def apply_to_group(self, stream: Stream | None, group: Group | None, fact: LocalFact) -> None:
        """Apply a fact about this group; nothing if there is none any more."""
        self._fact_count += 1
        if stream is not None and group is not None and apply_to_group(stream, group, fact):
            self.changed.record_dirty(fact.key, fact.group, group)

    def check(self) -> None:
        self.vector.check()
        self.members.check()
        self.conflicts.check()
        for origin, context in self.contexts.items():
            assert self.vector.descends(context), f"the context of origin {origin} exceeds what was applied"


class Change:
    """An effect that is applied to a stream: its dot, and what its origin had seen."""

    __slots__ = ("applied", "context", "counter", "origin", "stream")

    def __init__(self, applied: Applied, stream: Stream, origin: int, counter: int, context: VersionVector) -> None:
        self.applied = applied
        self.stream = stream
        self.origin = origin
        self.counter = counter
        self.context = context


def _apply_to_stream(change: Change, effect: Effect) -> bool:
    """Apply an effect to its stream; return whether readers of the stream may find something new."""
    if isinstance(effect, fx.Acknowledged):
        return _apply_acknowledged(change, effect)
    # What is prepared here has seen all that is here.
    if change.context is not change.applied.vector:
        change.applied.conflicts.look(change.stream, (change.origin, change.counter), change.context, effect)
    return STREAM_RULES[type(effect)](change, effect)


def _apply_removed(change: Change, effect: fx.EntriesRemoved) -> bool:
    change.stream.apply_removed(change.origin, change.counter, effect.ranges, effect.trimmed, effect.max_deleted)
    if effect.references:
        change.stream.drop_references(change.origin, change.counter, effect.references)
    change.applied.changed.dirty_all(effect.key, change.stream)
    return True


def _apply_entry_named(change: Change, effect: fx.EntryNamed) -> bool:
    change.applied.raise_format(NAMES_FORMAT)
    keyspace = change.applied.keyspace
    keyspace.named.record(effect, change.stream, (change.origin, change.counter), change.context, keyspace.now_ms)
    return False


def _apply_acknowledged(change: Change, effect: fx.Acknowledged) -> bool:
    group = change.stream.groups.get(effect.group)
    own = change.origin == change.applied.origin
    if change.stream.producers is not None:
        record_runs(change.stream, effect)
    if group is not None and group.apply_runs(effect.creates, effect.runs, own, effect.resets):
        change.applied.changed.dirty[(effect.key, effect.group)] = None
    return False


def _apply_group_created(change: Change, effect: fx.GroupCreated) -> bool:
    dot = (change.origin, change.counter)
    if change.applied.members.voids(change.origin, change.counter):
        change.applied.conflicts.record(CREATION_VOID, effect.key, NO_DOT, dot, effect.group)
    else:
        change.stream.apply_group_created(dot, change.context, effect.group, effect.start, effect.entries_read)
        change.applied.changed.dirty[(effect.key, effect.group)] = None
    return True


def _apply_group_properties(change: Change, effect: fx.GroupPropertiesSet) -> bool:
    change.applied.raise_format(PROPERTIES_FORMAT)
    group = change.stream.groups.get(effect.group)
    registers = {name: (effect.number, change.origin, value) for name, value in effect.values.items()}
    if group is None or not group.apply_properties(effect.creates, registers):
        return False
    change.applied.changed.dirty[(effect.key, effect.group)] = None
    return True


def _apply_group_reset(change: Change, effect: fx.GroupReset) -> bool:
    change.applied.raise_format(PROPERTIES_FORMAT)
    group = change.stream.groups.get(effect.group)
    if group is None or not reset_group(group, effect.creates, (effect.number, change.origin), effect.start):
        return False
    change.applied.changed.dirty[(effect.key, effect.group)] = None
    return True


def _apply_group_destroyed(change: Change, effect: fx.GroupDestroyed) -> bool:
    change.stream.apply_group_destroyed(change.origin, change.counter, change.context, effect.group)
    return True


def _apply_deleted(change: Change, effect: fx.StreamDeleted) -> bool:
    change.stream.apply_deleted(change.origin, change.counter, change.context, effect.counts)
    change.applied.keyspace.schedule(effect.key, change.stream)
    return True


def _apply_id_set(change: Change, effect: fx.StreamIdSet) -> bool:
    change.stream.apply_id_set(
        change.origin, change.counter, effect.last_id, effect.max_deleted, effect.offset, effect.weight
    )
    return True


def _apply_expiry_set(change: Change, effect: fx.ExpirySet) -> bool:
    change.stream.apply_expiry_set(change.origin, change.counter, change.context, effect.expires_ms)
    change.applied.keyspace.schedule(effect.key, change.stream)
    return True


def _apply_stream_properties(change: Change, effect: fx.StreamPropertiesSet) -> bool:
    change.applied.raise_format(PROPERTIES_FORMAT)
    stream, dot = change.stream, (change.origin, change.counter)
    stream.properties = with_set(stream.properties, dot, change.context, effect.number, effect.values)
    change.applied.keyspace.schedule(effect.key, stream)
    return True


def _apply_add_counted(change: Change, effect: fx.AddCounted) -> bool:
    change.stream.apply_add_counted(change.origin, change.counter, effect.first, effect.before)
    return True


def _apply_joined(members: Members, dot: Dot, _context: VersionVector, effect: fx.MemberJoined) -> list[int]:
    members.apply_joined(dot, effect.origin)
    return []


def _apply_admitted(members: Members, dot: Dot, context: VersionVector, effect: fx.MemberAdmitted) -> list[int]:
    return members.apply_admitted(dot, (effect.origin, effect.counter), effect.by_all, context)


def _apply_evicted(members: Members, dot: Dot, context: VersionVector, effect: fx.MemberEvicted) -> list[int]:
    return members.apply_evicted(dot, effect.origin, effect.through, effect.successor, context)


# What applies an effect to its stream; it returns whether readers of the stream may find something new. The frequent
# ones, `EntriesAdded` and `Acknowledged`, are told apart before: compiled, a comparison costs less than a look-up.
STREAM_RULES: Final[dict[type[Effect], Callable[[Change, Any], bool]]] = {
    fx.EntryNamed: _apply_entry_named,
    fx.EntriesRemoved: _apply_removed,
    fx.GroupCreated: _apply_group_created,
    fx.GroupDestroyed: _apply_group_destroyed,
    fx.GroupPropertiesSet: _apply_group_properties,
    fx.GroupReset: _apply_group_reset,
    fx.StreamDeleted: _apply_deleted,
    fx.StreamIdSet: _apply_id_set,
    fx.ExpirySet: _apply_expiry_set,
    fx.StreamPropertiesSet: _apply_stream_properties,
    fx.AddCounted: _apply_add_counted,
}
# What applies an effect to the table of members; it returns the origins that have ended, or ended earlier than known.
MEMBER_RULES: Final[dict[type[Effect], Callable[[Members, Dot, VersionVector, Any], list[int]]]] = {
    fx.MemberJoined: _apply_joined,
    fx.MemberAdmitted: _apply_admitted,
    fx.MemberEvicted: _apply_evicted,
}
