"""The replicated state of one region, and what this region itself does to it: prepare effects and local facts.

Every change goes the same way: a fact is made (an effect with a dot, or a local fact), applied (applying.py), and kept
for the log. Nothing else changes state, so replaying the log rebuilds it exactly. `take()` closes what was prepared
since the last time into one batch and the local facts that belong to it, each fact stamped with the own counter after
which it was made.

The vector is the causal context of whatever is prepared next. Contexts of one batch differ only in their own part, so
remote effects between two local ones must be preceded by `take()`; `apply_batch` asserts it.

`prepared` counts the attempts to change something here, so that it tells whether a command that failed tried.

The `Acknowledged` of a dirty group is prepared at the end of a turn, and before any
other effect on its key, so that an acknowledgement never outlives the group it was made under.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.applying import Applied, StampedFact
from crdtstream.core.block import Block, encode_named, id_reply
from crdtstream.core.causality import Dot, VersionVector, region_of
from crdtstream.core.effects import Batch, CounterRange, Effect, Key, LocalFact, Position
from crdtstream.core.entry_id import EntryId, IdWriter
from crdtstream.core.expiry import VOID_EXPIRY
from crdtstream.core.stream import Stream


class Taken:
    """What was prepared since the last `take()`: local facts first, as the log wants them, then the batch; `through` is
    the own counter at their end.
    """

    __slots__ = ("batch", "facts", "through")

    def __init__(self, batch: Batch | None, facts: list[StampedFact], through: int) -> None:
        self.batch = batch
        self.facts = facts
        self.through = through


class Replica(Applied):
    """The state of one region, and the one way to change it."""

    __slots__ = (
        "_context",
        "_effects",
        "_facts",
        "_first",
        "_id_writer",
        "expired_keys",
        "prepared",
    )

    def __init__(self, slot: int) -> None:
        super().__init__(slot)
        self.prepared = 0
        self.expired_keys = 0
        self._effects: list[Effect] = []
        self._facts: list[StampedFact] = []
        self._first = 1
        self._context = VersionVector()
        self._id_writer = IdWriter()

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

    def is_settled(self) -> bool:
        """Nothing is prepared that the log does not have yet: a key can be captured."""
        return not self._effects and not self._facts and not self._dirty

    # Between turns

    def apply_batch(self, batch: Batch, position: int = 0) -> None:
        assert not self._effects, "a local batch is open: take() it before remote effects are applied"
        super().apply_batch(batch, position)

    def join(self, streams: dict[Key, Stream], vector: VersionVector, position: int = 0) -> None:
        assert not self._effects and not self._facts, "a turn is open: take() it before a state is joined"
        super().join(streams, vector, position)
