"""`python -m nemesis.standby`: two regions of one site; the one that all clients use fails, and they go to the other.

A writer and a consumer know both addresses and use the first one. A writer that got no answer repeats its entry at the
next address, under the same token; the consumer reads on there in the same group. What a round shows:

    seconds without an answer   the longest time between two answers, to the writer and to the consumer
    added twice                 tokens under two IDs: the first region had added the entry and could not say so
    delivered twice             entries that the consumer had handled before, and got again
    late                        acknowledged entries that the second region has only once the first one is back
    lost                        acknowledged entries that the second region lacks in the end, or never delivered

`killed` is `kill -9`: connections end at once. `hung` is SIGSTOP: they stay open and silent, so that clients wait for
their own timeout.
"""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.region import RegionProcess, await_agreement, regions_in
from crdtstream.processes.waiting import until

KEY, GROUP = "orders", "workers"
KILLED, HUNG = "killed", "hung"
FAULTS = {KILLED: signal.SIGKILL, HUNG: signal.SIGSTOP}
TIMEOUT_S = 1.0
PAUSE_S = 0.02
READ_COUNT = 100
BLOCK_MS = 20
WARM_UP_ANSWERS = 200
MOVE_ON = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    OSError,
)


@dataclass(frozen=True)
class Outcome:
    """The result of one round."""

    fault: str
    added: int
    writer_s: float
    consumer_s: float
    added_twice: int
    delivered_twice: int
    late: int
    lost: int
    back_s: float


class Client(threading.Thread, ABC):
    """Uses one region at a time, and the next one when that does not answer; `answered_s` are the times of answers."""

    def __init__(self, regions: list[RegionProcess]) -> None:
        super().__init__(daemon=True)
        self._regions = itertools.cycle(regions)
        self._ends = threading.Event()
        self.answered_s: list[float] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                try:
                    with next(self._regions).client(TIMEOUT_S) as connection:
                        while not self._ends.is_set():
                            self.turn(connection)
                            self.answered_s.append(time.monotonic())
                except MOVE_ON:
                    self._ends.wait(PAUSE_S)
        except BaseException as error:
            self.error = error
            raise

    @abstractmethod
    def turn(self, connection: Any) -> None:
        """One request of this client, and its reply."""

    def await_answers(self, count: int) -> None:
        """As many more."""
        goal = len(self.answered_s) + count
        until(lambda: len(self.answered_s) >= goal or self.error, "clients are answered")

    def silent_s(self) -> float:
        """The longest time between two answers."""
        return max(after - before for before, after in itertools.pairwise(self.answered_s))

    def end(self) -> None:
        self._ends.set()
        self.join()
        assert self.error is None, self.error


class Writer(Client):
    """`ids` are those that were answered; an entry without an answer is added again."""

    def __init__(self, regions: list[RegionProcess]) -> None:
        super().__init__(regions)
        self.ids: set[bytes] = set()

    def turn(self, connection: Any) -> None:
        self.ids.add(connection.execute_command("XADD", KEY, "*", "token", len(self.ids)))


class Consumer(Client):
    """`handled` are the entries that it got, again and again if need be; it acknowledges what it has handled."""

    def __init__(self, regions: list[RegionProcess]) -> None:
        super().__init__(regions)
        self.handled: Counter[bytes] = Counter()

    def turn(self, connection: Any) -> None:
        self.read(connection, READ_COUNT)

    def read(self, connection: Any, count: int) -> int:
        """Returns how many entries came."""
        command = ("XREADGROUP", "GROUP", GROUP, "anna", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS", KEY, ">")
        reply = connection.execute_command(*command)
        ids = [entry_id for entry_id, _ in reply[0][1]] if reply else []
        self.handled.update(ids)
        if ids:
            connection.execute_command("XACK", KEY, GROUP, *ids)
        return len(ids)


@contextmanager
def running(clients: list[Client]) -> Iterator[None]:
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.end()


def held(region: RegionProcess) -> dict[bytes, bytes]:
    """The token of each entry, by ID."""
    return {entry_id: token for entry_id, (_, token) in region.ask("XRANGE", KEY, "-", "+")}


def one_round(fault: str, fsync: str, answers: int) -> Outcome:
    """Let the first region fail under load, and come back once the clients rest."""
    with TemporaryDirectory(prefix="standby-") as directory, regions_in(Path(directory)) as owned:
        first, second = regions = owned.make(1, 2)
        for region in regions:
            region.start(*[other for other in regions if other is not region], fsync=fsync)
        first.await_serving().create_group(KEY, GROUP)
        await_agreement(regions)
        writer, consumer = Writer(regions), Consumer(regions)
        with running([writer, consumer]):
            writer.await_answers(answers)
            first.signal(FAULTS[fault])
            for client in (writer, consumer):
                client.await_answers(answers)
        late = writer.ids - held(second).keys()
        back_s = bring_back(first, second, fault, fsync)
        with second.client() as connection:
            while consumer.read(connection, READ_COUNT):
                pass
        return outcome(fault, writer, consumer, late, held(second), back_s)


def bring_back(first: RegionProcess, second: RegionProcess, fault: str, fsync: str) -> float:
    """Return the seconds until both hold the same again."""
    began_s = time.monotonic()
    if fault == KILLED:
        first.kill()
        first.start(second, fsync=fsync)
    else:
        first.signal(signal.SIGCONT)
    first.await_serving().await_links(second.name)
    await_agreement([first, second])
    return time.monotonic() - began_s


def outcome(
    fault: str, writer: Writer, consumer: Consumer, late: set[bytes], there: dict[bytes, bytes], back_s: float
) -> Outcome:
    return Outcome(
        fault=fault,
        added=len(writer.ids),
        writer_s=writer.silent_s(),
        consumer_s=consumer.silent_s(),
        added_twice=len(there) - len(set(there.values())),
        delivered_twice=sum(count - 1 for count in consumer.handled.values()),
        late=len(late),
        lost=len(writer.ids - there.keys()) + len(there.keys() - consumer.handled.keys()),
        back_s=back_s,
    )


def main(
    times: Annotated[int, typer.Option(min=1, help="How many rounds of each fault.")] = 5,
    fsync: Annotated[str, typer.Option(help="Policy of the regions.")] = "everysec",
    fault: Annotated[str, typer.Option(help="`killed` or `hung`; both by default.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Let one of two regions of a site fail under load."""
    if fault and fault not in FAULTS:
        raise typer.BadParameter(f"no fault {fault!r}; there are: {', '.join(FAULTS)}")
    outcomes = [
        one_round(each, fsync, WARM_UP_ANSWERS) for each in ([fault] if fault else FAULTS) for _ in range(times)
    ]
    if as_json:
        print(json.dumps([asdict(each) for each in outcomes]))
    else:
        Console().print(table_of(outcomes))
    if any(each.lost for each in outcomes):
        raise typer.Exit(1)


def table_of(outcomes: list[Outcome]) -> Table:
    table = Table(*(field.name.replace("_s", ", s").replace("_", " ") for field in fields(Outcome)))
    for each in outcomes:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in asdict(each).values()))
    return table


if __name__ == "__main__":
    end_cleanly_at_signals()
    typer.run(main)
