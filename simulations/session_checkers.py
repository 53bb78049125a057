"""What a client finds that carries a token from region to region (CRDT.TOKEN, CRDT.AWAIT).

The clients look between two turns, and change nothing: worlds are the same with and without them. They never wait:
where CRDT.AWAIT blocks, they ask again at a later turn.
"""

from __future__ import annotations

from crdtstream.commands.dispatch import dispatch
from crdtstream.connections.client import Client
from crdtstream.core.effects import MemberEvicted
from crdtstream.core.values.causality import VersionVector
from crdtstream.scenarios.reply import ReplyError, Value, read_reply
from simulations.checking import Checker
from simulations.network import Network

TOKEN_EVERY = 11
AWAIT_EVERY = 3
TOKENS_MAX = 6


class Carried:
    """A token: what its region had applied, and the regions that have not answered yet."""

    __slots__ = ("lost_in", "open_in", "seen", "text")

    def __init__(self, text: bytes, seen: VersionVector, open_in: list[int]) -> None:
        self.text = text
        self.seen = seen
        self.open_in = dict.fromkeys(open_in)
        self.lost_in: dict[int, str] = {}


class ReadsItsWrites(Checker):
    """A region that answers OK to CRDT.AWAIT has all that the region of the token had. What it calls LOST comes back
    nowhere, and once all is quiet no region waits for what is there.
    """

    name = "sessions"

    def __init__(self) -> None:
        self._turns = 0
        self._carried: list[Carried] = []
        self._lost: list[Carried] = []

    def turned(self, world: Network, number: int) -> None:
        self._turns += 1
        machine = world.machines[number]
        if not machine.up or not machine.node.membership.serving() or machine.node.replica.is_open:
            return
        if self._turns % TOKEN_EVERY == 0:
            self._get_token(world, number)
        elif self._turns % AWAIT_EVERY == 0:
            for carried in self._carried:
                self._await(world, number, carried)

    def _get_token(self, world: Network, number: int) -> None:
        text = ask(world, number, b"CRDT.TOKEN")
        assert isinstance(text, str), text
        seen = world.machines[number].node.replica.applied.vector.copy()
        self.carry(Carried(text.encode(), seen, list(world.machines)))

    def carry(self, carried: Carried) -> None:
        """Let a client carry this token. The oldest one is forgotten, unless something of it was lost."""
        self._carried.append(carried)
        if len(self._carried) > TOKENS_MAX:
            oldest = self._carried.pop(0)
            if oldest.lost_in:
                self._lost.append(oldest)

    def _await(self, world: Network, number: int, carried: Carried) -> None:
        if number not in carried.open_in:
            return
        answer = ask(world, number, b"CRDT.AWAIT", carried.text, b"0")
        if answer is None:
            return
        del carried.open_in[number]
        if isinstance(answer, ReplyError):
            if not self._may_bring(world, number):
                carried.lost_in[number] = str(answer)
            return
        missing = carried.seen.beyond(world.machines[number].node.replica.applied.vector)
        if missing.total():
            self.fail(f"region {number} answers {answer}, and lacks {missing} of what the token's region had")

    def at_end(self, world: Network) -> None:
        for carried in [*self._lost, *self._carried]:
            is_there = world.vector().descends(carried.seen)
            if is_there and carried.lost_in and not self._may_revive(world):
                self.fail(f"{carried.lost_in}, and all of {carried.seen} is there")
            for number in world.served() if is_there else []:
                if ask(world, number, b"CRDT.AWAIT", carried.text, b"0") != "OK":
                    self.fail(f"region {number} does not answer for {carried.seen}, which it has")

    def _may_bring(self, world: Network, number: int) -> bool:
        """What no member has, a region may bring that is none yet, as far as this region knows."""
        members = world.machines[number].node.replica.applied.members.joined()
        return not {machine.node.replica.applied.origin for machine in world.machines.values()} <= set(members)

    def _may_revive(self, world: Network) -> bool:
        """What no member had may come back with a directory that was away, or a region that went on after its
        eviction.
        """
        effects = [effect for _, _, effect in world.oracle.effects(world.vector())]
        evicted = any(isinstance(effect, MemberEvicted) and not effect.successor for effect in effects)
        return evicted or bool(world.settings.twin) or bool(world.injected["put-back"])


def ask(world: Network, number: int, *argv: bytes) -> Value:
    """The reply of a region between two turns; None where a client would go on waiting."""
    context = world.machines[number].node.context
    client = Client(0, "", context.now_ms, context.users.default)
    context.recognise(client)
    reply = dispatch(context, client, list(argv))
    if reply is None:
        context.unpark(client)
        return None
    return read_reply(reply)
