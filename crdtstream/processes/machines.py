"""A region of several shards on two machines: two supervisors with directories and loopback addresses of their own, and
the same ports.
"""

from __future__ import annotations

import signal
from pathlib import Path

from crdtstream.processes.ports import free_ports
from crdtstream.processes.sharded import ShardedRegion
from crdtstream.processes.waiting import until


class SplitRegion:
    """All shards run on the first machine at first; `peers` are addresses of other regions."""

    def __init__(self, number: int, directory: Path, shards: int) -> None:
        self.number = number
        self.shards = shards
        self.name = f"region{number}"
        port, replication_port = free_ports(shards), free_ports(shards)
        self.machines = [
            ShardedRegion(
                number,
                directory,
                shards,
                f"{self.name}-{letter}",
                port=port,
                host=host,
                replication_port=replication_port,
            )
            for letter, host in (("a", "127.0.0.1"), ("b", "127.0.0.2"))
        ]
        self.where = [0] * shards
        self.peers: tuple[str, ...] = ()
        # A shard that takes over on its machine.
        self.replaced: int | None = None
        self._settings: dict[str, object] = {}

    @property
    def address(self) -> str:
        """Where other regions dial it: that of shard 0."""
        return self.machines[self.where[0]].address

    def start(self, *peers: str, **settings: object) -> None:
        self.peers, self._settings = peers, settings
        for machine in self.machines:
            self._write(machine)
            self._start(machine)

    def _start(self, machine: ShardedRegion) -> None:
        host = dict.fromkeys(("bind", "replication_bind", "announce_host"), machine.host)
        machine.start(config=self._settings_of(machine), **{**self._settings, **host, "name": self.name})

    def _settings_of(self, machine: ShardedRegion) -> Path:
        return machine.log_path.with_suffix(".toml")

    def _write(self, machine: ShardedRegion) -> None:
        """Write its settings file: which shards run there, and where the others are."""
        here = [number for number in range(self.shards) if self.of(number) is machine]
        announce = [
            f'"{number}={self.of(number).host}:{self.of(number).port}"'
            for number in range(self.shards)
            if number not in here
        ]
        shard = ",".join(map(str, here)) or "none"
        peers = ", ".join(f'"{peer}"' for peer in self.peers)
        text = f'shard = "{shard}"\nannounce = [{", ".join(announce)}]\npeers = [{peers}]\n'
        if self.replaced in here:
            text += f'replace = "{self.replaced}"\n'
        self._settings_of(machine).write_text(text)

    def of(self, shard: int) -> ShardedRegion:
        """The machine that a shard runs on."""
        return self.machines[self.where[shard]]

    def place_of(self, shard: int) -> tuple[str, int]:
        """Where clients reach a shard."""
        return self.of(shard).host, self.of(shard).port + shard

    def directory_of(self, shard: int) -> Path:
        return self.of(shard).data / f"shard-{shard:03d}"

    def await_serving(self) -> None:
        for shard in range(self.shards):
            self.of(shard).await_shard(shard)

    def restart(self, shard: int) -> None:
        """Stop the process of a shard cleanly, and have it started again. A supervisor ends with its last shard."""
        machine = self.of(shard)
        if [self.of(number) for number in range(self.shards)].count(machine) == 1:
            machine.terminate()
            self._start(machine)
        else:
            machine.stop_shard(shard)
            machine.signal(signal.SIGHUP)
        machine.await_shard(shard)

    # A move, in the steps of an operator

    def move(self, shard: int) -> None:
        """Move a shard to the other machine, and wait until it serves there."""
        left = self.directory_of(shard)
        self.send_away(shard)
        self.await_handed_over(shard, left)
        left.rename(self.directory_of(shard))
        self.of(shard).signal(signal.SIGHUP)
        self.of(shard).await_shard(shard)

    def send_away(self, shard: int) -> None:
        """Have the machine of a shard stop it, because it is to run on the other one."""
        left = self.of(shard)
        self.where[shard] = 1 - self.where[shard]
        for machine in self.machines:
            self._write(machine)
        left.signal(signal.SIGHUP)

    def call_off(self, shard: int) -> None:
        """Have a shard run again where it was handed over, before the other machine has started it."""
        self.where[shard] = 1 - self.where[shard]
        self.replaced = shard
        for machine in self.machines:
            self._write(machine)
            machine.signal(signal.SIGHUP)

    def await_handed_over(self, shard: int, directory: Path) -> None:
        wanted = "{}:{}".format(*self.place_of(shard))
        file = directory / "place"

        def is_handed_over() -> bool:
            address, position, _ = file.read_text().split()
            return address == wanted and position != "0"

        until(is_handed_over, lambda: f"shard {shard} of {self.name} is handed over{self.logs()}")

    def dial(self, *peers: str) -> None:
        """Have it dial other regions at these addresses from now on."""
        self.peers = peers
        for machine in self.machines:
            self._write(machine)
            machine.signal(signal.SIGHUP)

    # What its shards tell

    def digests(self) -> list[bytes]:
        return [bytes(self.of(shard).ask_shard(shard, "CRDT.DIGEST")) for shard in range(self.shards)]

    def logs(self) -> str:
        return "".join(machine.log_end() for machine in self.machines)

    def log(self) -> str:
        return "".join(machine.log() for machine in self.machines)

    def stop(self) -> None:
        for machine in self.machines:
            machine.request_stop()
        for machine in self.machines:
            machine.stop()
