"""Effects applied, from anywhere: the state that they make, and what of it is news.

An effect from another origin, one from the own log and one that is prepared just now are applied alike, so replaying
the log rebuilds the state exactly. A whole state of another region is joined instead.

After a checkpoint was loaded, some keys are ahead of the vector: their state was captured while the node went on. Each
is named with the position in the log that it includes, and what is replayed up to there passes it by.

News are two: keys whose readers may find something new, and groups that are *dirty*, whose runs may have grown.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.causality import Dot, VersionVector
from crdtstream.core.effects import Batch, Effect, Key, LocalFact
from crdtstream.core.fact_applying import apply_fact
from crdtstream.core.joining import join_stream
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.members import Members
from crdtstream.core.stream import Stream

StampedFact = tuple[int, LocalFact]


class Applied(Keyspace):
    """The streams and members of one region as effects have made them, up to `vector`; `slot` is the own origin's."""

    __slots__ = ("_captured", "_dirty", "_touched", "_touching", "_waiting_facts", "members", "slot", "vector")

    def __init__(self, slot: int) -> None:
        super().__init__()
        self.slot = slot
        self.vector = VersionVector()
        self.members = Members()
        self._dirty: dict[tuple[Key, bytes], None] = {}
        self._touched: dict[Key, None] = {}
        self._touching: Stream | None = None
        self._waiting_facts: list[StampedFact] = []
        self._captured: dict[Key, int] = {}

    def counter(self) -> int:
        """The own origin's last counter."""
        return self.vector.get(self.slot)

    def take_touched(self) -> list[Key]:
        """Keys whose readers may have something new, in the order in which they were touched."""
        touched = list(self._touched)
        self._touched.clear()
        self._touching = None
        return touched

    def touched(self) -> list[Key]:
        """As `take_touched`, which may come later."""
        return list(self._touched)

    # Batches and facts

    def apply_batch(self, batch: Batch, position: int = 0) -> None:
        """A batch that passed both gates, from another origin, or from the own log, where it has this position."""
        assert batch.first == self.vector.get(batch.slot) + 1, (
            f"a gap before counter {batch.first} of slot {batch.slot}"
        )
        assert self.vector.descends(batch.context), "a batch was applied before its context"
        context = batch.context.copy()
        counter = batch.first
        if self._waiting_facts and batch.slot == self.slot:
            self._release_facts()
        for effect in batch.effects:
            if not self._captured or self._captured.get(effect.key, 0) < position:
                self._apply(batch.slot, counter, context, effect)
            counter += effect.width()
            context.advance(batch.slot, counter - 1)
            self.vector.advance(batch.slot, counter - 1)
            if self._waiting_facts and batch.slot == self.slot:
                self._release_facts()

    def replay_facts(self, facts: list[StampedFact], through: int, position: int = 0) -> None:
        """Local facts from this position of the log: each waits until the own effects before it are applied, and all
        wait for the batch of their turn, which ends at the own counter `through`: a turn is replayed whole or not at
        all.
        """
        if self._captured:
            facts = [fact for fact in facts if self._captured.get(fact[1].key, 0) < position]
        self._waiting_facts += facts
        if through <= self.counter():
            self._release_facts()

    def drop_waiting_facts(self) -> int:
        """Facts whose batch the torn tail took with it; returns how many."""
        dropped = len(self._waiting_facts)
        self._waiting_facts.clear()
        return dropped

    def _release_facts(self) -> None:
        counter = self.counter()
        while self._waiting_facts and self._waiting_facts[0][0] <= counter:
            self._apply_fact(self._waiting_facts.pop(0)[1])

    def end_replay(self) -> int:
        """After recovery; returns how many facts were dropped."""
        self._captured.clear()
        return self.drop_waiting_facts()

    # Join

    def join(self, streams: dict[Key, Stream], vector: VersionVector, position: int = 0) -> None:
        """Another region's replicated state, taken at exactly this vector; from the own log, where it has this
        position. A key that is not named is absent there. The streams given are used up.
        """
        own = [(number, name) for number, database in enumerate(self.databases) for name in database]
        fresh = not any(self.vector.get(slot) for slot, _ in vector.items())
        for key in sorted({*own, *streams}):
            if not self._captured or self._captured.get(key, 0) < position:
                self._join_key(key, streams.get(key) or Stream(), vector, fresh)
        self.vector.merge(vector)

    def _join_key(self, key: Key, theirs: Stream, vector: VersionVector, fresh: bool) -> None:
        """`fresh`: nothing of theirs was ever seen here, so a key that is not here, without groups, is taken over."""
        if self.observers:
            self._announce(key)
        if fresh and not theirs.groups and key[1] not in self.databases[key[0]]:
            stream = self.databases[key[0]][key[1]] = theirs
        else:
            stream = self._stream(key)
            join_stream(stream, self.vector, theirs, vector)
        self.deadlines.follow(key, stream.expires_ms)
        self._dirty_all(key, stream)
        self._touched[key] = None
        self._note_remains(key, stream)

    def join_members(self, members: Members) -> None:
        """Another region's table of members; after the streams of the same moment, whose creates may be void here."""
        self.members.join(members)
        self._void_ended({})

    # Checkpoints

    def restore(self, key: Key, stream: Stream | None, position: int) -> None:
        """A key as a checkpoint has it, up to this position of the log; None when it was gone by then."""
        self._captured[key] = position
        if stream is not None:
            self.databases[key[0]][key[1]] = stream
            self.follow_expiry(key)
            self._note_remains(key, stream)

    def follow_expiry(self, key: Key) -> None:
        """After the key's state was put in its place other than by an effect."""
        stream = self._stream(key)
        stream.choose_expiry()
        self.deadlines.follow(key, stream.expires_ms)

    # One effect, one fact

    def _apply(self, slot: int, counter: int, context: VersionVector, effect: Effect) -> None:
        if isinstance(effect, fx.MemberEffect):
            self._apply_to_members((slot, counter), effect)
            return
        key = effect.key
        if self.observers:
            self._announce(key)
        stream = self._stream(key)
        if isinstance(effect, fx.EntriesAdded):
            block, low, high = effect.block, effect.low, effect.high
            stream.apply_added(slot, counter, effect.first, effect.before, block, low, high)
        elif isinstance(effect, fx.EntriesRemoved):
            stream.apply_removed(slot, counter, effect.ranges, effect.trimmed, effect.max_deleted)
            self._dirty_all(key, stream)
        elif isinstance(effect, fx.Acknowledged):
            group = stream.groups.get(effect.group)
            if group is not None and group.apply_runs(effect.creates, effect.runs, slot == self.slot):
                self._dirty[(key, effect.group)] = None
            self._note_remains(key, stream)
            return
        elif isinstance(effect, fx.GroupCreated):
            if not self.members.voids(slot, counter):
                stream.apply_group_created((slot, counter), context, effect.group, effect.start, effect.entries_read)
        elif isinstance(effect, fx.GroupDestroyed):
            stream.apply_group_destroyed(slot, counter, context, effect.group)
        elif isinstance(effect, fx.StreamDeleted):
            stream.apply_deleted(slot, counter, context, effect.counts)
            self.deadlines.follow(key, stream.expires_ms)
        elif isinstance(effect, fx.StreamIdSet):
            stream.apply_id_set(slot, counter, effect.last_id, effect.max_deleted, effect.offset, effect.weight)
        elif isinstance(effect, fx.ExpirySet):
            stream.apply_expiry_set(slot, counter, context, effect.expires_ms)
            self.deadlines.follow(key, stream.expires_ms)
        elif isinstance(effect, fx.AddCounted):
            stream.apply_add_counted(slot, counter, effect.first, effect.before)
        else:
            raise AssertionError(f"no way to apply {type(effect).__name__}")
        self._touched[key] = None
        self._note_remains(key, stream)

    def _apply_to_members(self, dot: Dot, effect: fx.MemberEffect) -> None:
        if isinstance(effect, fx.MemberEvicted):
            before = self.members.ends()
            self.members.apply_evicted(effect.slot, effect.through)
            self._void_ended(before)
        elif isinstance(effect, fx.MemberAdmitted):
            self.members.apply_admitted(dot, (effect.slot, effect.counter))
        else:
            self.members.apply_joined(dot, effect.slot)

    def _void_ended(self, before: dict[int, int]) -> None:
        """Creates of those whose membership has ended, or ended earlier than was known."""
        for slot, end in self.members.ends().items():
            if before.get(slot) != end:
                for key, group in self._void_creates(slot, end):
                    self._touched[key] = None
                    self._dirty[(key, group)] = None

    def _dirty_all(self, key: Key, stream: Stream) -> None:
        for name in stream.groups:
            self._dirty[(key, name)] = None

    def _apply_fact(self, fact: LocalFact) -> None:
        stream = self.known(fact.key)
        group = None if stream is None else stream.groups.get(fact.group)
        if stream is None or group is None:
            return
        if apply_fact(stream, group, fact):
            self._dirty[(fact.key, fact.group)] = None

    def check(self) -> None:
        self.vector.check()
        self.members.check()
        self.check_streams()
