"""Checkers of key expiry: its time, and that expired keys are deleted."""

from __future__ import annotations

from crdtstream.core.effects import EntriesAdded, GroupCreated
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


class ExpiresInTime(Checker):
    """A writable region deletes keys at the expiry that it set itself, and all expired keys after
    `expiry_takeover_ms`.
    """

    name = "expiry"

    def ticked(self, world: Network, number: int) -> None:
        context = world.machines[number].node.context
        if context.standing.writable and not context.standing.loading:
            for key in context.replica.keyspace.deadlines.times:
                self._look(world, number, key)

    def _look(self, world: Network, number: int, key: tuple[int, bytes]) -> None:
        context = world.machines[number].node.context
        expires_ms, origin, _ = context.replica.keyspace.databases[key[0]][key[1]].expiries()[-1]
        patience_ms = 0 if region_of(origin) == number else context.limits.expiry_takeover_ms
        if expires_ms + patience_ms < context.now_ms:
            self.fail(f"region {number}, {key}: expired at {expires_ms} by {origin}, still there at {context.now_ms}")
