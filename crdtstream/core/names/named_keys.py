"""The keys that have a register of names: how many names there are, which adds met, and what may be forgotten.

`held` is the number of names in all registers together. Beyond `names_max` the oldest name of the key leaves that has
had names for longest: concurrent adds under it stay both. `met` are the keys in which concurrent adds met, until what
is lost of them was removed here (core/names/duplicates.py).

`duration_s` and `entries_max` are the settings, for streams in which XCFGSET set nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import EntryNamed, Key
from crdtstream.core.names.producers import Producers
from crdtstream.core.names.register import NamedAdd, NameRegister
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import Dot, VersionVector

NAMES_MAX: Final = 250_000
NAMES_OF_AN_ADD: Final = 2
DURATION_S: Final = 100
ENTRIES_MAX: Final = 100


class NamedKeys:
    """`removed` counts the entries that this region removed as lost, `dropped` the names beyond the bound."""

    __slots__ = (
        "_databases",
        "_queue",
        "_sizes",
        "dropped",
        "duration_s",
        "entries_max",
        "held",
        "met",
        "names_max",
        "removed",
    )

    def __init__(self, databases: list[dict[bytes, Stream]]) -> None:
        self._databases = databases
        # The number of names of each key, in the order in which they got their first one.
        self._sizes: dict[Key, int] = {}
        self._queue: deque[Key] = deque()
        self.met: dict[Key, None] = {}
        self.held = 0
        self.names_max = NAMES_MAX
        self.duration_s = DURATION_S
        self.entries_max = ENTRIES_MAX
        self.removed = 0
        self.dropped = 0

    def limit(self, names_max: int, duration_s: int, entries_max: int) -> None:
        self.names_max, self.duration_s, self.entries_max = names_max, duration_s, entries_max

    def record(self, effect: EntryNamed, stream: Stream, dot: Dot, context: VersionVector, now_ms: int) -> None:
        """Record a name of the add right before, told under this dot; its producer had seen what the context covers."""
        meta = stream.metas.get(dot[0])
        if meta is None or not 0 < dot[1] - meta.add_counter <= NAMES_OF_AN_ADD:
            # Only an unsound origin names something else than what it has just added.
            return
        producers = stream.producers
        if producers is None:
            producers = stream.producers = Producers()
        register, name = producers.share(), (effect.producer, effect.name)
        at_ms = max(meta.add_id[0] - effect.lag_ms, 0)
        register.record(name, (dot[0], meta.add_counter), meta.add_id, at_ms, context)
        self.look(effect.key, stream)
        if effect.producer:
            made_ms = max(at_ms, producers.made_ms(*name))
            producers.record(*name, register.survivor(name).entry_id, made_ms)
            producers.added += 1
            self._forget_records(producers, effect.producer, now_ms)
        while self.held > self.names_max:
            self._drop_oldest()

    def _forget_records(self, producers: Producers, producer: bytes, now_ms: int) -> None:
        duration_s = self.duration_s if producers.duration_s is None else producers.duration_s
        entries_max = self.entries_max if producers.entries_max is None else producers.entries_max
        producers.forget(producer, now_ms - 1000 * duration_s, entries_max)

    def _drop_oldest(self) -> None:
        key = next(iter(self._sizes))
        stream = self._databases[key[0]][key[1]]
        register = register_of(stream)
        assert register is not None, f"{key[1]!r} is counted and has no names"
        register.drop_oldest()
        self.dropped += 1
        self.look(key, stream)

    def look(self, key: Key, stream: Stream) -> None:
        """Count the names of a key whose stream has changed."""
        register = register_of(stream)
        size = 0 if register is None else len(register)
        before = self._sizes.get(key, 0)
        self.held += size - before
        if size:
            self._sizes[key] = size
            if not before:
                self._queue.append(key)
            if register is not None and register.met:
                self.met[key] = None
        elif before:
            del self._sizes[key]
            self.met.pop(key, None)
        if size == 0 and stream.producers is not None:
            stream.producers.register = None

    def forget(self, stable: VersionVector, keys_max: int, names_max: int, now_ms: int) -> None:
        """Forget names whose adds are all stable, looking at so many keys and names at most."""
        for _ in range(min(keys_max, len(self._queue))):
            if names_max <= 0:
                return
            key = self._queue.popleft()
            if key not in self._sizes:
                continue
            stream = self._databases[key[0]][key[1]]
            register = register_of(stream)
            assert register is not None, f"{key[1]!r} is counted and has no names"
            names_max -= register.forget(stable, names_max, self._need_of(stream, now_ms))
            self.look(key, stream)
            if key in self._sizes:
                self._queue.append(key)

    def _need_of(self, stream: Stream, now_ms: int) -> Callable[[list[NamedAdd]], bool]:
        """What is lost is told to those that acknowledge it, or add it again, for the duration, and while it is pending
        in this region.
        """
        producers = stream.producers
        set_s = None if producers is None else producers.duration_s
        since_ms = now_ms - 1000 * (self.duration_s if set_s is None else set_s)

        def is_needed(adds: list[NamedAdd]) -> bool:
            return any(add.at_ms > since_ms or is_pending(stream, add) for add in adds)

        return is_needed

    def check(self) -> None:
        sizes = {
            (number, name): len(register)
            for number, database in enumerate(self._databases)
            for name, stream in database.items()
            if (register := register_of(stream)) is not None
        }
        assert sizes == self._sizes, "the numbers of names are stale"
        assert all(sizes.values()), "a register without names is kept"
        assert self.held == sum(sizes.values()), "the number of names is stale"
        assert set(sizes) <= set(self._queue), "a key with names is not queued"
        met = [key for key in sizes if register_met(self._databases[key[0]][key[1]])]
        assert set(met) <= set(self.met), "a key in which adds met is not noted"


def register_of(stream: Stream) -> NameRegister | None:
    return None if stream.producers is None else stream.producers.register


def register_met(stream: Stream) -> bool:
    register = register_of(stream)
    return register is not None and bool(register.met)


def is_pending(stream: Stream, add: NamedAdd) -> bool:
    """True if a consumer of this region holds the entry."""
    return any(group.pending.get(add.dot[0], add.entry_id) is not None for group in stream.groups.values())
