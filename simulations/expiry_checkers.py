"""Checkers of key expiry: its time, and that expired keys are deleted."""

from __future__ import annotations

from crdtstream.core.effects import EntriesAdded, GroupCreated, Key
from crdtstream.core.values.causality import region_of
from simulations.checking import Checker
from simulations.network import Network
from simulations.state_checkers import held_of


class LongestExpiry(Checker):
    """Each region lets a key expire at the longest of the concurrent expiries."""

    name = "longest expiry"

    def at_end(self, world: Network) -> None:
        for key, expected in sorted(world.expected().items()):
            for number in world.machines:
                held = held_of(world, number, key)
                if held.expires_ms != expected.expires_ms:
                    self.fail(f"region {number}, {key}: expires at {held.expires_ms}, not {expected.expires_ms}")


class RestartsEmpty(Checker):
    """Nothing is added to an expired key, and no group is created in it: the writer deletes it first."""

    name = "hidden key"

    def at_end(self, world: Network) -> None:
        for dot, _, effect in world.oracle.late_effects(world.vector()):
            if isinstance(effect, EntriesAdded | GroupCreated):
                self.fail(f"{effect.key}: {type(effect).__name__} {dot} was made when the key had expired")


# So often in a row a region that spills may find at a tick that what a key's groups acknowledge waits for the disk.
DELAYED_TICKS_MAX = 20


class ExpiresInTime(Checker):
    """A writable region deletes keys at the expiry that it set itself, and all expired keys after
    `expiry_takeover_ms`; some ticks later where a group has to acknowledge first what only the disk has.
    """

    name = "expiry"

    def __init__(self) -> None:
        # For how many ticks of a region a key has been late.
        self._late: dict[tuple[int, Key], int] = {}

    def ticked(self, world: Network, number: int) -> None:
        context = world.machines[number].node.context
        late: dict[tuple[int, Key], int] = {}
        if context.standing.writable and not context.standing.loading:
            for key in context.replica.keyspace.deadlines.times:
                if self._look(world, number, key):
                    late[(number, key)] = self._late.get((number, key), 0) + 1
        others = {each: ticks for each, ticks in self._late.items() if each[0] != number}
        self._late = {**others, **late}

    def _look(self, world: Network, number: int, key: Key) -> bool:
        """True if the key is late, and may be."""
        context = world.machines[number].node.context
        stream = context.replica.keyspace.databases[key[0]][key[1]]
        expires_ms, origin, _ = stream.expiries()[-1]
        patience_ms = 0 if region_of(origin) == number else context.limits.expiry_takeover_ms
        if expires_ms + patience_ms >= context.now_ms:
            return False
        waits = context.replica.reads.on and bool(stream.groups)
        if not waits or self._late.get((number, key), 0) >= DELAYED_TICKS_MAX:
            self.fail(f"region {number}, {key}: expired at {expires_ms} by {origin}, still there at {context.now_ms}")
        return True
