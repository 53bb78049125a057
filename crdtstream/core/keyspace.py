"""The keyspace: what a region holds under each key, and what a reader finds there.

A key is **hidden** once its expiry has passed: readers do not find it, although its state is here until the
`StreamDeleted` of the region whose expiry won arrives, or until a local writer deletes it first. `now_ms` is the time
of the turn, set by the node; it decides what is hidden and what is prepared, never how an effect is applied.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import mypyc_attr

from crdtstream.core.collection import Collection
from crdtstream.core.effects import Key
from crdtstream.core.names.named_keys import NamedKeys
from crdtstream.core.streams.expiry import NO_EXPIRY, Deadlines
from crdtstream.core.streams.retained_keys import RetainedKeys
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.key_order import KeyOrder

DATABASES = 16


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """The base class; it ignores all changes.

    An observer is told before an effect from any origin, or a joined state, changes the replicated state of a key, so
    the state before the change can still be captured, and before a remembered stream is dropped, which other regions
    may not have. Local facts are not announced: they change nothing replicated.
    """

    __slots__ = ()

    def before_change(self, key: Key) -> None:
        """The state of this key is about to change; the key may not exist yet."""


class Keyspace:
    """The streams of all databases, including remembered ones that do not exist; `orders` has the names of each."""

    __slots__ = (
        "collection",
        "databases",
        "deadlines",
        "digests",
        "named",
        "now_ms",
        "observers",
        "orders",
        "retained",
    )

    def __init__(self) -> None:
        self.databases: list[dict[bytes, Stream]] = [{} for _ in range(DATABASES)]
        self.orders = [KeyOrder() for _ in range(DATABASES)]
        self.collection = Collection()
        self.named = NamedKeys(self.databases)
        self.deadlines = Deadlines()
        self.retained = RetainedKeys()
        self.now_ms = 0
        self.observers: list[Observer] = []
        # How many digests are under way: meanwhile no block is spilled without the sum of its entries.
        self.digests = 0

    def find(self, key: Key) -> Stream | None:
        """The stream of a key that exists and is not hidden, else None; marks it as used."""
        stream = self.databases[key[0]].get(key[1])
        if stream is None or stream.is_hidden(self.now_ms) or (stream.length == 0 and not stream.exists()):
            return None
        stream.used_ms = self.now_ms
        return stream

    def peek(self, key: Key) -> Stream | None:
        """Like `find`, without marking the key as used."""
        stream = self.known(key)
        return None if stream is None or stream.is_hidden(self.now_ms) else stream

    def known(self, key: Key) -> Stream | None:
        """Like `peek`, but finds hidden keys too."""
        stream = self.databases[key[0]].get(key[1])
        return None if stream is None or (stream.length == 0 and not stream.exists()) else stream

    def hides(self, key: Key) -> bool:
        stream = self.known(key)
        return stream is not None and stream.is_hidden(self.now_ms)

    def keys(self, database: int) -> list[bytes]:
        """The names of keys that exist and are not hidden."""
        now_ms = self.now_ms
        streams = self.databases[database].items()
        return [name for name, stream in streams if stream.exists() and not stream.is_hidden(now_ms)]

    def known_keys(self, database: int) -> list[bytes]:
        """The names of keys that exist, hidden ones too."""
        return [name for name, stream in self.databases[database].items() if stream.exists()]

    def remembered_keys(self) -> list[Key]:
        """All keys, including those that do not exist any more."""
        return [(number, name) for number, database in enumerate(self.databases) for name in database]

    def streams(self) -> Iterator[tuple[Key, Stream]]:
        """All streams, including remembered ones that do not exist."""
        for number, database in enumerate(self.databases):
            for name, stream in database.items():
                yield (number, name), stream

    # Changing the state of a key: announce it, change it, and note what remains

    def ensure(self, key: Key) -> Stream:
        """The stream of a key; a key that has none gets an empty one."""
        stream = self.databases[key[0]].get(key[1])
        return self.place(key, Stream()) if stream is None else stream

    def place(self, key: Key, stream: Stream) -> Stream:
        """Store the stream of a key, in place of any before."""
        database = self.databases[key[0]]
        if key[1] not in database:
            self.orders[key[0]].add(key[1])
        database[key[1]] = stream
        return stream

    def announce(self, key: Key) -> None:
        """Tell the observers; a caller on a hot path asks first whether there are any."""
        for observer in self.observers:
            observer.before_change(key)

    def schedule(self, key: Key, stream: Stream) -> None:
        """Note what ticks have to do with this key: its expiry, and the limits of its retention."""
        self.deadlines.schedule(key, stream.expires_ms)
        properties = stream.properties
        if properties is not None or self.retained.keys:
            self.retained.schedule(key, properties is not None and properties.limits.removes())

    def schedule_restored(self, key: Key) -> None:
        """The same for a key whose state was installed other than by an effect."""
        stream = self.ensure(key)
        stream.choose_expiry()
        self.schedule(key, stream)

    # Streams that are only remembered

    def collect(self, stable: VersionVector, keys_max: int) -> int:
        """Forget what is causally stable, visiting at most `keys_max` keys; returns how many were visited."""
        return self.collection.collect(self.databases, self.orders, stable, keys_max, self.announce)

    def record_remains(self, key: Key, stream: Stream) -> None:
        """Queue the key for collection if it has tombstones or does not exist, and count the names of its adds."""
        if stream.producers is not None or self.named.held:
            self.named.look(key, stream)
        if stream.deleted or stream.destroyed or not stream.exists():
            self.collection.queue(key)

    def void_creates(self, origin: int, through: int) -> list[tuple[Key, bytes]]:
        """Void an evicted origin's group creates above this counter. Returns the groups that changed."""
        changed: list[tuple[Key, bytes]] = []
        for number, database in enumerate(self.databases):
            for name, stream in database.items():
                groups = stream.groups_made_by(origin, through) if stream.groups else []
                for group in groups:
                    self.announce((number, name))
                    stream.void_creates(group, origin, through)
                    self.record_remains((number, name), stream)
                    changed.append(((number, name), group))
        return changed

    def check(self) -> None:
        self.deadlines.check()
        self.retained.check()
        for key, stream in self.streams():
            properties = stream.properties
            removes = properties is not None and properties.limits.removes()
            assert removes == (key in self.retained.keys), f"{key}: what has limits is not visited"
        self.collection.check(self.databases)
        self.named.check()
        expiring = 0
        for number, database in enumerate(self.databases):
            self.orders[number].check(database)
            for name, stream in database.items():
                stream.check()
                if stream.expires_ms != NO_EXPIRY:
                    expiring += 1
                    assert self.deadlines.times.get((number, name)) == stream.expires_ms, f"{name!r} has no deadline"
        assert expiring == len(self.deadlines.times), "a key without an expiry has a deadline"
