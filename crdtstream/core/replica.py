"""The replicated state of one region: prepare an effect here, apply an effect from anywhere.

Every change goes the same way: a fact is made (an effect with a dot, or a local fact), applied, and kept for the log.
Nothing else changes state, so replaying the log rebuilds it exactly. `take()` closes what was prepared since the last
time into one batch and the local facts that belong to it, each fact stamped with the own counter after which it was
made.

The vector is the causal context of whatever is prepared next. Contexts of one batch differ only in their own part, so
remote effects between two local ones must be preceded by `take()`; `apply_batch` asserts it.

After a checkpoint was loaded, some keys are ahead of the vector: their state was captured while the node went on. Each
is named with the position in the log that it includes, and what is replayed up to there passes it by.

`prepared` counts the attempts to change something here, so that it tells whether a command that failed tried.

A group is *dirty* when its runs may have grown; its `Acknowledged` is prepared at the end of a turn, and before any
other effect on its key, so that an acknowledgement never outlives the group it was made under.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.block import Block, encode_named, id_reply
from crdtstream.core.causality import Dot, VersionVector, region_of
from crdtstream.core.effects import Batch, CounterRange, Effect, Key, LocalFact, Position
from crdtstream.core.entry_id import EntryId, IdWriter
from crdtstream.core.expiry import VOID_EXPIRY
from crdtstream.core.fact_applying import apply_fact
from crdtstream.core.joining import join_stream
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.members import Members
from crdtstream.core.stream import Stream

StampedFact = tuple[int, LocalFact]


class Taken:
    """What was prepared since the last `take()`: local facts first, as the log wants them, then the batch; `through` is
    the own counter at their end.
    """

    __slots__ = ("batch", "facts", "through")

    def __init__(self, batch: Batch | None, facts: list[StampedFact], through: int) -> None:
        self.batch = batch
        self.facts = facts
        self.through = through


class Replica(Keyspace):
    """The streams of one region, and the one way to change them."""

    __slots__ = (
        "_captured",
        "_context",
        "_dirty",
        "_effects",
        "_facts",
        "_first",
        "_id_writer",
        "_touched",
        "_touching",
        "_waiting_facts",
        "expired_keys",
        "members",
        "prepared",
        "slot",
        "vector",
    )

    def __init__(self, slot: int) -> None:
        super().__init__()
        self.slot = slot
        self.vector = VersionVector()
        self.prepared = 0
        self.expired_keys = 0
        self.members = Members()
        self._effects: list[Effect] = []
        self._facts: list[StampedFact] = []
        self._first = 1
        self._context = VersionVector()
        self._dirty: dict[tuple[Key, bytes], None] = {}
        self._touched: dict[Key, None] = {}
        self._touching: Stream | None = None
        self._id_writer = IdWriter()
        self._waiting_facts: list[StampedFact] = []
        self._captured: dict[Key, int] = {}

    # Reading

    def counter(self) -> int:
        """The own origin's last counter."""
        return self.vector.get(self.slot)

    def written(self) -> int:
        """A counter that covers what was prepared and the acknowledgements that dirty groups may add this turn."""
        return self.vector.get(self.slot) + len(self._dirty)

    # Prepare: effects

    def add_entry(self, key: Key, entry_id: EntryId, fields: list[bytes]) -> bytes:
        """Append to the own tree; adjacent adds to one key share an effect while they share a block.

        Returns the ID as `id_reply` has it.
        """
        if self.observers:
            self._announce(key)
        database = self.databases[key[0]]
        stream = database.get(key[1])
        if stream is None:
            stream = Stream()
            database[key[1]] = stream
        elif stream.length == 0 or stream.expires_ms < self.now_ms:
            self.freshen(key)
        stream.used_ms = self.now_ms
        self.prepared += 1
        if not self._effects:
            self._open_batch(self.counter() + 1)
        counter = self.vector.next(self.slot)
        meta = stream.meta(self.slot)
        first, before = meta.next_count(counter)
        name = id_reply(self._id_writer.text(entry_id))
        block = stream.tree(self.slot).append(entry_id, counter, encode_named(name, fields))
        last = self._effects[-1] if self._effects else None
        if isinstance(last, fx.EntriesAdded) and last.block is block and not self._fact_since(counter):
            last.high += 1
        else:
            self._effects.append(fx.EntriesAdded(key, first, before, block, block.count - 1, block.count))
        meta.count(first, before, 1)
        stream.note_added(meta, counter, entry_id, 1)
        if stream is not self._touching:
            self._touching = stream
            self._touched[key] = None
        return name

    def _fact_since(self, counter: int) -> bool:
        """A fact between two adds must be replayed between them, so they do not share an effect."""
        return bool(self._facts) and self._facts[-1][0] == counter - 1

    def add_block(self, key: Key, block: Block) -> None:
        """Append entries that are encoded already, as one effect of their own; the block has the next counters."""
        counter = self.vector.get(self.slot) + 1
        assert block.counter_at(0) == counter, "a block with counters of another time"
        first, before = self._stream(key).meta(self.slot).next_count(counter)
        self._commit(fx.EntriesAdded(key, first, before, block, 0, block.count))

    def count_add(self, key: Key) -> None:
        """An add without an entry."""
        self.acknowledge_key(key)
        counter = self.vector.get(self.slot) + 1
        first, before = self._stream(key).meta(self.slot).next_count(counter)
        self._commit(fx.AddCounted(key, first, before))

    def remove_entries(
        self, key: Key, ranges: dict[int, list[CounterRange]], trimmed: bool, max_deleted: EntryId | None
    ) -> int:
        """XDEL or a trim of the counters named; returns how many entries left."""
        stream = self.find(key)
        if stream is None or not ranges:
            return 0
        if max_deleted is not None:
            max_deleted = max(max_deleted, stream.meta(self.slot).removed_id)
        before = stream.length
        self._prepare(fx.EntriesRemoved(key, ranges, trimmed, max_deleted))
        return before - stream.length

    def delete_stream(self, key: Key) -> bool:
        """DEL; a hidden key goes too, but was not there."""
        stream = self.known(key)
        if stream is None:
            return False
        hidden = stream.expires_ms < self.now_ms
        self._delete(key, stream)
        return not hidden

    def _delete(self, key: Key, stream: Stream) -> None:
        counts = {slot: (meta.first, meta.added) for slot, meta in sorted(stream.metas.items()) if meta.added}
        self._prepare(fx.StreamDeleted(key, counts))

    def set_id(self, key: Key, last_id: EntryId, entries_added: int | None, max_deleted: EntryId | None) -> None:
        stream = self.find(key)
        assert stream is not None, "XSETID of a key that does not exist"
        offset: int | None = None
        if entries_added is not None:
            offset = entries_added - (stream.entries_added() - stream.offset())
        self._prepare(fx.StreamIdSet(key, last_id, max_deleted, offset, self.vector.total()))

    def create_group(self, key: Key, group: bytes, start: Position, entries_read: int) -> None:
        self.freshen(key)
        self._prepare(fx.GroupCreated(key, group, start, entries_read))

    def destroy_group(self, key: Key, group: bytes) -> bool:
        stream = self.find(key)
        if stream is None or group not in stream.groups:
            return False
        self._prepare(fx.GroupDestroyed(key, group))
        return True

    def join_member(self, slot: int) -> None:
        """Be that origin's sponsor."""
        self._commit(fx.MemberJoined(slot))

    def follow_sponsor(self, sponsor: Dot) -> None:
        """Say which Join of itself this origin follows."""
        self._commit(fx.MemberAdmitted(sponsor[0], sponsor[1]))

    def evict_member(self, slot: int) -> None:
        """What this region holds of that origin is all that counts of its creates."""
        self._commit(fx.MemberEvicted(slot, self.vector.get(slot)))

    def _prepare(self, effect: Effect) -> None:
        self.acknowledge_key(effect.key)
        self._commit(effect)

    def _commit(self, effect: Effect) -> None:
        self.prepared += 1
        counter = self.vector.get(self.slot) + 1
        if not self._effects:
            self._open_batch(counter)
        self._effects.append(effect)
        self._apply(self.slot, counter, self.vector, effect)
        self.vector.advance(self.slot, counter + effect.width() - 1)

    def _open_batch(self, first: int) -> None:
        self._first = first
        self._context = self.vector.copy()

    # Prepare: expiry

    def set_expiry(self, key: Key, expires_ms: int) -> None:
        """EXPIRE; PERSIST is `NO_EXPIRY`."""
        assert self.peek(key) is not None, "an expiry for a key that is not there"
        self._prepare(fx.ExpirySet(key, expires_ms))

    def freshen(self, key: Key) -> None:
        """Before a write that may make the key: delete it if it is hidden, void expiries that outlived it."""
        stream = self.databases[key[0]].get(key[1])
        if stream is None:
            return
        if not stream.exists():
            if stream.expiries():
                self._prepare(fx.ExpirySet(key, VOID_EXPIRY))
        elif stream.expires_ms < self.now_ms:
            self.expired_keys += 1
            self._delete(key, stream)

    def expire_due(self, takeover_ms: int, keys_max: int) -> None:
        """Delete keys that have expired, at most so many: those whose expiry was set in this region or in one that was
        evicted since, and those that nobody deleted for `takeover_ms`.
        """
        for _ in range(keys_max):
            key = self.deadlines.take_due(self.now_ms)
            if key is None:
                return
            expires_ms, slot, _ = self.databases[key[0]][key[1]].expiries()[-1]
            gone = self.members.is_evicted(slot) or expires_ms + takeover_ms < self.now_ms
            if gone or region_of(slot) == region_of(self.slot):
                self.freshen(key)
            else:
                self.deadlines.look(key, expires_ms + takeover_ms)

    def follow_expiry(self, key: Key) -> None:
        """After the key's state was put in its place other than by an effect."""
        stream = self._stream(key)
        stream.choose_expiry()
        self.deadlines.follow(key, stream.expires_ms)

    # Prepare: acknowledgements

    def acknowledge_key(self, key: Key) -> None:
        """Before another effect on the key: send the runs that its groups have."""
        if self._dirty:
            for dirty in [entry for entry in self._dirty if entry[0] == key]:
                self._acknowledge(dirty)

    def acknowledge_all(self) -> None:
        """At the end of a turn."""
        while self._dirty:
            self._acknowledge(next(iter(self._dirty)))

    def _acknowledge(self, dirty: tuple[Key, bytes]) -> None:
        del self._dirty[dirty]
        key, name = dirty
        stream = self.known(key)
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            return
        runs = group.new_runs(stream.trees)
        if runs:
            self._commit(fx.Acknowledged(key, name, sorted(group.creates), runs))
            self._dirty.pop(dirty, None)

    # Prepare: local facts

    def record(self, fact: LocalFact) -> None:
        """A local fact: applied here, logged, never sent."""
        self.prepared += 1
        self._facts.append((self.counter(), fact))
        self._apply_fact(fact)

    def take(self) -> Taken:
        """Close what was prepared."""
        batch: Batch | None = None
        if self._effects:
            batch = Batch(self.slot, self._first, self.counter(), self._context, self._effects)
            self._effects = []
        facts = self._facts
        self._facts = []
        return Taken(batch, facts, self.counter())

    def take_touched(self) -> list[Key]:
        """Keys whose readers may have something new, in the order in which they were touched."""
        touched = list(self._touched)
        self._touched.clear()
        self._touching = None
        return touched

    def touched(self) -> list[Key]:
        """As `take_touched`, which may come later."""
        return list(self._touched)

    # Apply

    def apply_batch(self, batch: Batch, position: int = 0) -> None:
        """A batch that passed both gates, from another origin, or from the own log, where it has this position."""
        assert not self._effects, "a local batch is open: take() it before remote effects are applied"
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
        assert not self._effects and not self._facts, "a turn is open: take() it before a state is joined"
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

    def is_settled(self) -> bool:
        """Nothing is prepared that the log does not have yet: a key can be captured."""
        return not self._effects and not self._facts and not self._dirty

    def restore(self, key: Key, stream: Stream | None, position: int) -> None:
        """A key as a checkpoint has it, up to this position of the log; None when it was gone by then."""
        self._captured[key] = position
        if stream is not None:
            self.databases[key[0]][key[1]] = stream
            self.follow_expiry(key)
            self._note_remains(key, stream)

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
