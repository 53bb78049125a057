"""The connections of a world: opened, filled and closed at random times.

Connections are dialled again after a delay. A side is pulled `pull_ms` after it may have something to send, so that
what accumulates in a busy moment is sent as one message, and each message takes a random time.
"""

from __future__ import annotations

from random import Random

from simulations.network import START_MS, Connection, Network, Pair, address_of
from simulations.settings import Settings


class RandomLinks(Network):
    """A network whose links draw from `rng`, which a subclass has before it calls this constructor."""

    rng: Random

    def __init__(self, settings: Settings, pairs: list[Pair], seed: int) -> None:
        super().__init__(settings, START_MS, pairs, seed)
        self.cut: set[Pair] = set()
        self.clogged: set[Pair] = set()
        self.slow: set[Pair] = set()
        self._dialling: set[Pair] = set()

    def runs(self, number: int) -> bool:
        machine = self.machines[number]
        return machine.up and not machine.paused

    def plan_dial(self, pair: Pair) -> None:
        if pair not in self._dialling:
            self._dialling.add(pair)
            self.plan(20 + self.rng.randrange(200), self._dial, pair)

    lost = plan_dial

    def _dial(self, pair: Pair) -> None:
        self._dialling.discard(pair)
        if self.between(pair):
            return
        if pair in self.cut or not all(self.runs(end) for end in pair):
            self.plan_dial(pair)
        else:
            self.connect(pair)

    def connect(self, pair: Pair) -> Connection:
        for index, end in enumerate(pair):
            other = pair[1 - index]
            self.machines[end].node.peer_met(address_of(other), self.machines[other].config.region)
        return super().connect(pair)

    def wake(self, connection: Connection, sender: int) -> None:
        """Plan a pull."""
        flow = connection.flows[connection.other(sender)]
        if not flow.pulled:
            flow.pulled = True
            self.plan(self.settings.pull_ms, self._pull, connection, sender)

    def _pull(self, connection: Connection, sender: int) -> None:
        connection.flows[connection.other(sender)].pulled = False
        if sender in connection.joined and self.runs(sender):
            self.act(sender, lambda: self._pull_one(connection, sender))

    def _pull_one(self, connection: Connection, sender: int) -> None:
        if self.send_next(connection, sender):
            self._send(connection, sender)
            self.wake(connection, sender)
        else:
            self._obey_verdict(connection, sender)

    def _send(self, connection: Connection, sender: int) -> None:
        """Plan the arrival of one message, after all that were sent before."""
        receiver = connection.other(sender)
        flow = connection.flows[receiver]
        if (sender, receiver) in self.clogged:
            flow.held += 1
            return
        delay_ms = 1 + self.rng.randrange(400 if connection.ends in self.slow else 20)
        flow.arrival_ms = max(flow.arrival_ms, self.now_ms + delay_ms)
        self.plan(flow.arrival_ms - self.now_ms, self._arrive, connection, receiver)

    def unclog(self, direction: Pair) -> None:
        self.clogged.discard(direction)
        sender, receiver = direction
        for connection in self.between((min(direction), max(direction))):
            flow = connection.flows[receiver]
            held, flow.held = flow.held, 0
            for _ in range(held):
                self._send(connection, sender)

    def _arrive(self, connection: Connection, receiver: int) -> None:
        connection.flows[receiver].arrived += 1
        self._read(connection, receiver)

    def _read(self, connection: Connection, receiver: int) -> None:
        """Receive messages that have arrived; a paused machine reads them later, in the same order."""
        flow = connection.flows[receiver]
        while flow.arrived and receiver in connection.joined and not self.machines[receiver].paused:
            flow.arrived -= 1
            self.act(receiver, lambda: self._receive(connection, receiver))

    def _receive(self, connection: Connection, receiver: int) -> None:
        self.machines[receiver].look_for_room()
        self.receive_next(connection, receiver)
        self._obey_verdict(connection, receiver)

    def resume(self, number: int) -> None:
        self.machines[number].paused = False
        for connection in self.connections_of(number):
            self._read(connection, number)

    def _obey_verdict(self, connection: Connection, end: int) -> None:
        reason = self.machines[end].node.link_verdict(connection.number) if end in connection.joined else None
        if reason is not None:
            self.log_event(f"link {connection.ends} is closed by {end}: {reason}")
            self.close_end(connection, end, reason)
            self.plan(1 + self.rng.randrange(30), self.close_end, connection, connection.other(end), "closed by peer")

    def lose_connections(self, pair: Pair) -> None:
        for connection in self.between(pair):
            for end in pair:
                self.plan(self.rng.randrange(30), self.close_end, connection, end, "connection lost")
