"""Keyspace notifications: what changed under which key, published to the clients of this region.

Events are derived from effects and local facts: those of this region after each command (`publish_prepared`), those of
other regions after each applied batch (`publish_applied`). So an event reports a change, regardless of which region
made it. A command whose changes have a name of their own in Redis, as RENAME, calls `publish_named`. A state that is
joined or replaced as a whole reports nothing.

A key is `new` if it did not exist before, and a DEL of a key that was hidden by its expiry means `expired`: hence this
observes the keyspace, and remembers what each key was before its first change since the last call.

Reference: `notify.c` of Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from crdtstream.connections.subscriptions import Subscriptions
from crdtstream.core import effects as fx
from crdtstream.core.applying import StampedFact
from crdtstream.core.effects import Batch, Effect, Key
from crdtstream.core.keyspace import Observer
from crdtstream.core.local_facts import ConsumerCreated, ConsumerDeleted, LocalFact, PositionSet
from crdtstream.core.replica import Replica
from crdtstream.core.streams.expiry import NO_EXPIRY, VOID_EXPIRY

# The letters of `notify-keyspace-events`, in the order in which Redis shows them. A stands for all classes up to d.
CLASSES: Final = "g$lshzxetd"
LETTERS: Final = CLASSES + "nKEm"
ALL: Final = (1 << len(CLASSES)) - 1
GENERIC: Final = 1 << LETTERS.index("g")
EXPIRED: Final = 1 << LETTERS.index("x")
STREAM: Final = 1 << LETTERS.index("t")
NEW: Final = 1 << LETTERS.index("n")
KEYSPACE: Final = 1 << LETTERS.index("K")
KEYEVENT: Final = 1 << LETTERS.index("E")
MISS: Final = 1 << LETTERS.index("m")

# What a key was before a change.
ABSENT: Final = 0
HIDDEN: Final = 1
VISIBLE: Final = 2

# The class and the name of an event.
KeyEvent = tuple[int, bytes]
NO_EVENT: Final[KeyEvent] = (0, b"")


def flags_of(text: str) -> int | None:
    """The flags that these letters stand for; None if one of them is unknown."""
    flags = 0
    for letter in text:
        if letter == "A":
            flags |= ALL
        elif letter in LETTERS:
            flags |= 1 << LETTERS.index(letter)
        else:
            return None
    return flags


def letters_of(flags: int) -> str:
    """The letters as Redis shows them: after A it does not tell whether n is set."""
    everything = flags & ALL == ALL
    hidden = CLASSES + "n" if everything else ""
    found = [letter for at, letter in enumerate(LETTERS) if flags >> at & 1 and letter not in hidden]
    return ("A" if everything else "") + "".join(found)


class Notifications(Observer):
    """The events of one region; `on` is false if none are wanted."""

    __slots__ = ("_at", "_before", "_effects", "_facts", "_facts_at", "_pubsub", "_replica", "_wide", "flags", "on")

    def __init__(self, replica: Replica, pubsub: Subscriptions) -> None:
        self._replica = replica
        self._pubsub = pubsub
        self.flags = 0
        self.on = False
        # How far the open turn has been told: its effects up to `_at`, and `_wide` counters of that one; its facts.
        self._effects: list[Effect] = []
        self._at = self._wide = 0
        self._facts: list[StampedFact] = []
        self._facts_at = 0
        self._before: dict[Key, int] = {}

    def configure(self, text: str) -> None:
        before = self.on
        self.flags = flags_of(text) or 0
        self.on = bool(self.flags & (KEYSPACE | KEYEVENT))
        observers = self._replica.keyspace.observers
        if self.on and not before:
            self._pass()
            observers.append(self)
        elif before and not self.on:
            observers.remove(self)

    def before_change(self, key: Key) -> None:
        if key not in self._before:
            stream = self._replica.keyspace.known(key)
            hidden = stream is not None and stream.is_hidden(self._replica.keyspace.now_ms)
            self._before[key] = ABSENT if stream is None else HIDDEN if hidden else VISIBLE

    # What is told

    def publish_prepared(self, quiet: bool = False) -> None:
        """Tell what was prepared here since the last call; `quiet`: only which keys are new and which expired."""
        if not self.on:
            return
        effects, facts = self._replica.opened()
        at, wide = (self._at, self._wide) if effects is self._effects else (0, 0)
        for effect in effects[at:]:
            self._publish(effect, effect.width - wide, quiet)
            wide = 0
        for _, fact in facts[self._facts_at if facts is self._facts else 0 :]:
            self._publish_fact(fact)
        self._pass()

    def _pass(self) -> None:
        """Take everything prepared so far as told."""
        self._effects, self._facts = self._replica.opened()
        self._at = max(0, len(self._effects) - 1)
        self._wide = self._effects[-1].width if self._effects else 0
        self._facts_at = len(self._facts)
        self._before.clear()

    def publish_applied(self, batch: Batch) -> None:
        """Tell what another region's batch changed, which was applied just now."""
        if self.on:
            for effect in batch.effects:
                self._publish(effect, effect.width, False)
            self._before.clear()

    def publish_named(self, kind: int, event: bytes, key: Key) -> None:
        """Tell an event of a command, in place of what its changes would tell."""
        if self.on:
            self.publish_prepared(quiet=True)
            self.notify(kind, event, key)

    def notify(self, kind: int, event: bytes, key: Key) -> None:
        if not self.flags & kind:
            return
        if self.flags & KEYSPACE:
            self._pubsub.publish(b"__keyspace@%d__:%b" % key, event)
        if self.flags & KEYEVENT:
            self._pubsub.publish(b"__keyevent@%d__:%b" % (key[0], event), key[1])

    def _publish(self, effect: Effect, count: int, quiet: bool) -> None:
        """Tell `count` counters of an effect."""
        if not count:
            return
        if isinstance(effect, fx.StreamDeleted):
            self._publish_deleted(effect.key, quiet)
            return
        if effect.creates_key() and self._before.get(effect.key, VISIBLE) == ABSENT:
            self._before[effect.key] = VISIBLE
            self.notify(NEW, b"new", effect.key)
        if not quiet:
            kind, event = event_of(effect)
            for _ in range(count if kind else 0):
                self.notify(kind, event, effect.key)

    def _publish_deleted(self, key: Key, quiet: bool) -> None:
        before = self._before.get(key, VISIBLE)
        self._before[key] = ABSENT
        if before == HIDDEN:
            self.notify(EXPIRED, b"expired", key)
        elif before == VISIBLE and not quiet:
            self.notify(GENERIC, b"del", key)

    def _publish_fact(self, fact: LocalFact) -> None:
        if isinstance(fact, ConsumerCreated):
            self.notify(STREAM, b"xgroup-createconsumer", fact.key)
        elif isinstance(fact, ConsumerDeleted):
            self.notify(STREAM, b"xgroup-delconsumer", fact.key)
        elif isinstance(fact, PositionSet):
            self.notify(STREAM, b"xgroup-setid", fact.key)


def event_of(effect: Effect) -> KeyEvent:
    event = EVENTS[type(effect)]
    return event if isinstance(event, tuple) else event(effect)


def _removed(effect: fx.EntriesRemoved) -> KeyEvent:
    # With ACKED a trim may leave older entries, and is then marked by having no highest deleted ID.
    is_trim = effect.trimmed or (effect.ranges and effect.max_deleted is None)
    return STREAM, b"xtrim" if is_trim else b"xdel"


def _expiry_set(effect: fx.ExpirySet) -> KeyEvent:
    if effect.expires_ms == VOID_EXPIRY:
        return NO_EVENT
    return GENERIC, b"persist" if effect.expires_ms == NO_EXPIRY else b"expire"


# The event of each effect, or what finds it. Whether a DEL has one depends on the key before (`_publish_deleted`).
EVENTS: Final[dict[type[Effect], KeyEvent | Callable[[Any], KeyEvent]]] = {
    fx.EntriesAdded: (STREAM, b"xadd"),
    fx.EntryNamed: NO_EVENT,
    fx.EntriesRemoved: _removed,
    fx.StreamDeleted: (GENERIC, b"del"),
    fx.StreamIdSet: (STREAM, b"xsetid"),
    fx.GroupCreated: (STREAM, b"xgroup-create"),
    fx.GroupDestroyed: (STREAM, b"xgroup-destroy"),
    fx.Acknowledged: NO_EVENT,
    fx.GroupPropertiesSet: NO_EVENT,
    fx.GroupReset: (STREAM, b"xgroup-setid"),
    fx.ExpirySet: _expiry_set,
    fx.StreamPropertiesSet: NO_EVENT,
    fx.AddCounted: NO_EVENT,
    fx.MemberJoined: NO_EVENT,
    fx.MemberAdmitted: NO_EVENT,
    fx.MemberEvicted: NO_EVENT,
}
