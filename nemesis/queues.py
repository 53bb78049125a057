"""`python -m nemesis.queues`: 60 consumers of two groups over three regions, under faults; exits with 1 if anything is
wrong.

One region at a time delivers the first group (DELIVER OWNER), every region the second one (ACKNOWLEDGE EXACT). Each
round plans a move of the first group, then something breaks, heals, and the consumers finish all that was added. Once
nothing is pending, all regions agree, and what the handlers saw is judged (nemesis/repeats.py):

    twice      adds that were repeated in another region, and handled under two IDs
    missed     entries that were added, and that no handler of the group has finished
    repeated   entries of the first group that came from a second region, beside how many the page allows; of the
               second group, calls in a further region
    retried    calls for what the same region had delivered before, to a consumer that died or could not acknowledge
    moves      planned moves that were made, and how many of them repeated an entry
    taken over how often another region delivers after the fault than before it
    letters    dead letters: one of each poison entry in each group (nemesis/letters.py)
"""

from __future__ import annotations

import json
import random
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import redis
import typer
from rich.console import Console
from rich.table import Table

from crdtstream.client.consumer import deliverer_of
from crdtstream.processes.launching import end_cleanly_at_signals
from crdtstream.processes.waiting import ProcessError, until
from nemesis.cluster import RELAYS, Cluster, Region, workplace
from nemesis.crowd import KEY, OWNED, SHARED, TAKEOVER_MS, Crowd
from nemesis.letters import LETTERS_KEY, LIMIT, FoundLetter, judge_letters, letters_of
from nemesis.repeats import AddedEntry, PlannedMove, Times, Verdict, judge_owned, judge_shared, stale
from nemesis.skew import Clocks, reason_for_no_skew

FAILURE = 1
USAGE_ERROR = 2
CONSUMERS = 60
MOVES = "planned moves"
MOVES_EACH = 4
# Longer than a poison entry is pending.
MOVE_WAIT_MS = 12_000
WARM_UP_S = 2.0
ALONE_S = 3.0
SERVING_S = 60.0
FINISHED_S = 90.0
JUMP_MS = 60_000
# Of the faults that break one region, so many break the one that delivers; the others any.
OWNER_SHARE = 0.7
SKEW_MS = 3_000
WRONG_SHOWN = 5
LIMITS = """
heartbeat_ms = 250
peer_timeout_ms = 2000
"""

progress = Console(stderr=True)


@dataclass
class Row:
    """The result of one round."""

    fault: str
    where: str = ""
    seconds: float = 0.0
    moves: int = 0
    moves_refused: int = 0
    taken_over: bool = False
    owned: Verdict = field(default_factory=Verdict)
    shared: Verdict = field(default_factory=Verdict)
    letters: int = 0
    wrong_letters: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def missed(self) -> int:
        return len(self.owned.missed) + len(self.shared.missed)

    @property
    def is_sound(self) -> bool:
        wrong = self.problems or self.wrong_letters or self.missed or self.owned.wrong or self.shared.wrong
        return not wrong and not self.owned.moves_with_a_repeat and self.owned.repeated <= self.owned.bound

    def row(self) -> dict[str, Any]:
        found = asdict(self)
        for name in (OWNED, SHARED):
            found[name]["missed"] = [entry_id.decode() for entry_id in found[name]["missed"]]
        return found


# Faults: each does its harm to one region, or to all, and returns where, and how it is undone.


@dataclass(frozen=True)
class BrokenPart:
    where: str
    undo: Callable[[], None]


def cut_link(drill: Drill, region: Region) -> BrokenPart:
    other = drill.chance.choice(drill.cluster.others(region))
    drill.cluster.cut(region, other)
    return BrokenPart(f"{region.name}-{other.name}", drill.cluster.network.heal)


def cut_off(drill: Drill, region: Region) -> BrokenPart:
    drill.cluster.cut_off(region)
    return BrokenPart(region.name, drill.cluster.network.heal)


def cut_all(drill: Drill, _region: Region) -> BrokenPart:
    for one in drill.cluster.regions.values():
        drill.cluster.cut_off(one)
    return BrokenPart("all", drill.cluster.network.heal)


def kill(drill: Drill, region: Region) -> BrokenPart:
    region.kill()
    return BrokenPart(region.name, lambda: drill.cluster.start(region))


def kill_alone(drill: Drill, region: Region) -> BrokenPart:
    """Kill a region that has delivered alone for a while; it comes back before its links do."""
    drill.cluster.cut_off(region)
    time.sleep(ALONE_S)
    drill.changed_s.append(time.monotonic())
    region.kill()
    drill.cluster.start(region)
    return BrokenPart(region.name, drill.cluster.network.heal)


def stop_all(drill: Drill, _region: Region) -> BrokenPart:
    for one in drill.cluster.regions.values():
        one.request_stop()
    for one in drill.cluster.regions.values():
        one.await_end()
        drill.cluster.start(one)
    return BrokenPart("all", lambda: None)


def restart_all(drill: Drill, _region: Region) -> BrokenPart:
    for one in drill.cluster.regions.values():
        one.kill()
    for one in drill.cluster.regions.values():
        drill.cluster.start(one)
    return BrokenPart("all", lambda: None)


def suspend(_drill: Drill, region: Region) -> BrokenPart:
    region.signal(signal.SIGSTOP)
    return BrokenPart(region.name, lambda: region.signal(signal.SIGCONT))


def set_clock(drill: Drill, region: Region) -> BrokenPart:
    """Let a clock jump by a minute, forwards or backwards, and later back."""
    offset_ms = drill.chance.choice([-JUMP_MS, JUMP_MS])
    drill.set_clock(region, offset_ms)
    return BrokenPart(f"{region.name} {offset_ms // 1_000:+d} s", lambda: drill.set_clock(region, 0))


Fault = Callable[["Drill", Region], BrokenPart]
FAULTS: dict[str, Fault] = {
    "link cut": cut_link,
    "region cut off": cut_off,
    "all links cut": cut_all,
    "killed": kill,
    "cut off and killed": kill_alone,
    "all killed": restart_all,
    "all stopped": stop_all,
    "suspended": suspend,
    "clock set": set_clock,
}
# What moves no group, and repeats nothing: see docs/queues.md.
HARMLESS = frozenset({"link cut", "clock set"})
CLOCK_FAULTS = frozenset({"clock set"})


class Drill:
    """The cluster, its crowd, and rounds. `skewed`: each region's clock is wrong all the time, by seconds."""

    def __init__(self, consumers: int, seed: int, kind: str = RELAYS) -> None:
        self.chance = random.Random(seed)
        # When a fault did more than one thing.
        self.changed_s: list[float] = []
        self._owned = ExitStack()
        try:
            directory = self._owned.enter_context(workplace())
            self.clocks = None if reason_for_no_skew() else Clocks(directory, (1, 2, 3))
            environment = None if self.clocks is None else self.clocks.environment
            self._wrong_by_ms = {1: 0, 2: SKEW_MS, 3: -SKEW_MS}
            for number in self._wrong_by_ms if self.clocks is not None else ():
                self.set_clock_of(number, 0)
            self.cluster = self._owned.enter_context(
                Cluster(directory, "always", seed, kind, limits=LIMITS, environment=environment)
            )
            regions = list(self.cluster.regions.values())
            self._create_groups(regions[0])
            self.crowd = Crowd(regions, consumers, seed)
            self.crowd.start()
            self._owned.callback(self.crowd.end)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._owned.close()

    def __enter__(self) -> Drill:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _create_groups(self, region: Region) -> None:
        owned = ("DELIVER", "OWNER", region.number, "TAKEOVER", TAKEOVER_MS)
        for group, properties in ((OWNED, owned), (SHARED, ("ACKNOWLEDGE", "EXACT"))):
            region.ask("XGROUP", "CREATE", KEY, group, "0", "MKSTREAM", "CRDT", *properties, *LIMIT)
        self.cluster.await_agreement()

    def set_clock(self, region: Region, offset_ms: int) -> None:
        self.set_clock_of(region.number, offset_ms)

    def set_clock_of(self, number: int, offset_ms: int) -> None:
        assert self.clocks is not None, "this fault needs a C compiler"
        self.clocks.set(number, self._wrong_by_ms[number] + offset_ms)

    # Rounds

    def round(self, fault: str, fault_s: float) -> Row:
        row = Row(fault)
        begun_s = time.monotonic()
        try:
            self._round(row, fault_s)
        except (AssertionError, ProcessError, redis.RedisError) as error:
            row.problems.append(f"{type(error).__name__}: {error}")
        if self.crowd.error is not None:
            row.problems.append(f"the crowd ended: {self.crowd.error!r}")
        row.seconds = time.monotonic() - begun_s
        return row

    def _round(self, row: Row, fault_s: float) -> None:
        added, handled, lettered = len(self.crowd.added), len(self.crowd.handled), len(self._letters())
        settled = {
            group: frozenset(call.entry_id for call in self.crowd.handled if call.group == group)
            for group in (OWNED, SHARED)
        }
        self.crowd.writing.set()
        time.sleep(WARM_UP_S)
        moves, times = self._break(row, fault_s)
        self.crowd.writing.clear()
        self._await_finished(row)
        letters = self._letters()
        row.letters = len(letters) - lettered
        row.wrong_letters = judge_letters([entry.token for entry in self.crowd.added], letters, (OWNED, SHARED))
        new, calls = self.crowd.added[added:], self.crowd.handled[handled:]
        owned = [call for call in calls if call.group == OWNED]
        shared = [call for call in calls if call.group == SHARED]
        row.owned = judge_owned(unlettered(new, letters, OWNED), owned, times, moves)
        row.shared = judge_shared(unlettered(new, letters, SHARED), shared, len(self.cluster.regions))
        row.owned.wrong += stale(settled[OWNED], owned)
        row.shared.wrong += stale(settled[SHARED], shared)

    def _break(self, row: Row, fault_s: float) -> tuple[list[PlannedMove], Times]:
        moves = [move for _ in range(MOVES_EACH if row.fault == MOVES else 1) if (move := self._move(row)) is not None]
        if row.fault == MOVES:
            return moves, Times()
        time.sleep(WARM_UP_S)
        owner = self._owner()
        any_region = self.chance.choice(list(self.cluster.regions.values()))
        region = owner if self.chance.random() < OWNER_SHARE else any_region
        self.changed_s, harmed_s = [], time.monotonic()
        broken = FAULTS[row.fault](self, region)
        row.where = broken.where + (" (delivers)" if region is owner else "")
        time.sleep(fault_s)
        broken.undo()
        self.changed_s.append(time.monotonic())
        self.cluster.await_linked()
        healed_s = time.monotonic()
        time.sleep(WARM_UP_S)
        row.taken_over = self._owner() is not owner
        times = Times() if row.fault in HARMLESS else Times(harmed_s, *self.changed_s, healed_s)
        return moves, times

    def _move(self, row: Row) -> PlannedMove | None:
        """Move the group to another region, by a command in any region."""
        regions = list(self.cluster.regions.values())
        owner = self._owner()
        target = self.chance.choice([region for region in regions if region is not owner])
        begun_s = time.monotonic()
        try:
            self.chance.choice(regions).ask("CRDT.GROUP", "MOVE", KEY, OWNED, target.name, "WAIT", MOVE_WAIT_MS)
        except redis.ResponseError as error:
            row.moves_refused += 1
            progress.print(f"refused: {error}", markup=False)
            return None
        row.moves += 1
        until(lambda: self._owner() is target, lambda: f"{target} delivers after a move", SERVING_S)
        time.sleep(WARM_UP_S / 2)
        return PlannedMove(begun_s, time.monotonic())

    def _owner(self) -> Region:
        """Return the region that delivers, as one of them says; all say so once they agree."""
        owner = until(self._told_owner, "a region says which one delivers", SERVING_S)
        assert owner is not None
        return owner

    def _told_owner(self) -> Region | None:
        for region in self.cluster.regions.values():
            with suppress(redis.ConnectionError, redis.TimeoutError):
                number = deliverer_of(region.ask("CRDT.GROUP", "GET", KEY, OWNED))
                return next((one for one in self.cluster.regions.values() if one.number == number), None)
        return None

    def _await_finished(self, row: Row) -> None:
        """Wait until every entry is handled, and nothing is pending in any region; then all must agree."""
        try:
            until(self._is_finished, lambda: f"nothing is pending, but {self._pending()}", FINISHED_S)
        except ProcessError as error:
            row.problems.append(str(error))
        self.cluster.await_agreement()
        # A consumer may still hold an entry that was acknowledged meanwhile, because another region delivered it too.
        until(self.crowd.is_idle, "consumers have finished what they hold", FINISHED_S)

    def _is_finished(self) -> bool:
        letters = self._letters()
        for group in (OWNED, SHARED):
            wanted = {entry.token for entry in unlettered(self.crowd.added, letters, group)}
            if wanted - {call.token for call in self.crowd.handled if call.group == group}:
                return False
        return not any(self._pending().values())

    def _letters(self) -> list[FoundLetter]:
        """Return what any region has under the dead-letter key."""
        rows = next(iter(self.cluster.regions.values())).ask("XRANGE", LETTERS_KEY, "-", "+")
        return letters_of(rows)

    def _pending(self) -> dict[str, int]:
        return {
            f"{region.name} {group}": region.ask("XPENDING", KEY, group)[0]
            for region in self.cluster.regions.values()
            for group in (OWNED, SHARED)
        }


def unlettered(added: list[AddedEntry], letters: list[FoundLetter], group: str) -> list[AddedEntry]:
    """Return the entries that the handlers of this group have to finish: those that are no letter of it."""
    found = {letter.token for letter in letters if letter.group == group}
    return [entry for entry in added if entry.token not in found]


def rounds(minutes: float, fault_s: float, seed: int, faults: list[str], consumers: int) -> Generator[Row, None, None]:
    """Yield a row for each fault, in an order drawn from the seed, and again until the time is over."""
    end_s = time.monotonic() + 60 * minutes
    with Drill(consumers, seed) as drill:
        if drill.clocks is None:
            progress.print(f"no clocks are set: {reason_for_no_skew()}", markup=False)
            faults = [fault for fault in faults if fault not in CLOCK_FAULTS]
        waiting = drill.chance.sample(faults, len(faults))
        again = False
        while waiting and (not again or time.monotonic() < end_s):
            yield drill.round(waiting.pop(), fault_s)
            if not waiting:
                waiting, again = drill.chance.sample(faults, len(faults)), True


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    minutes: Annotated[float, typer.Option(min=0, help="How long rounds are begun; none is cut short.")] = 5,
    fault_s: Annotated[float, typer.Option(min=0, help="Duration of a fault.")] = 6,
    faults: Annotated[str, typer.Option(help="Faults by name, separated by commas; all by default.")] = "",
    consumers: Annotated[int, typer.Option(min=6, help="Consumers of both groups together.")] = CONSUMERS,
    seed: Annotated[int | None, typer.Option(help="Determines the order of the faults, and their victims.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Directory for what the handlers saw, if anything is wrong.")
    ] = None,
) -> None:
    """Let consumers of two groups over three regions work while regions and links fail, and count what comes twice."""
    end_cleanly_at_signals()
    known = [MOVES, *FAULTS]
    chosen = [name.strip() for name in faults.split(",")] if faults else known
    unknown = [name for name in chosen if name not in known]
    if unknown:
        progress.print(f"no fault {unknown[0]!r}; there are: {', '.join(known)}")
        raise typer.Exit(USAGE_ERROR)
    number = random.randrange(1 << 32) if seed is None else seed
    records = keep or Path(tempfile.gettempdir()) / f"nemesis-queues-{number}"
    rows = []
    for row in rounds(minutes, fault_s, number, chosen, consumers):
        progress.print(line_of(row), markup=False, highlight=False)
        rows.append(row)
        if not row.is_sound:
            records.mkdir(parents=True, exist_ok=True)
            (records / f"{len(rows)}.json").write_text(json.dumps(row.row(), indent=1))
    if as_json:
        print(json.dumps({"seed": number, "rows": [row.row() for row in rows]}, indent=1))
    else:
        Console(width=160).print(table_of(rows, number))
    sound = bool(rows) and all(row.is_sound for row in rows)
    if not sound:
        progress.print(f"records: {records}", markup=False)
    raise typer.Exit(0 if sound else FAILURE)


def line_of(row: Row) -> str:
    owned, shared = row.owned, row.shared
    figures = (
        f"{owned.added} added, owned {owned.handled} handled, {owned.repeated} of {owned.bound} repeated,"
        f" {owned.retried} retried; shared {shared.handled} handled, {shared.retried} retried"
    )
    told = [*row.problems, *row.wrong_letters[:WRONG_SHOWN], *owned.wrong[:WRONG_SHOWN], *shared.wrong[:WRONG_SHOWN]]
    told += [f"missed {row.missed}"] if row.missed else []
    said = "sound" if row.is_sound else "WRONG: " + "; ".join(told)
    return f"{row.fault} ({row.where}), {row.seconds:.0f} s: {row.moves} moves, {figures}: {said}"


def table_of(rows: list[Row], seed: int) -> Table:
    table = Table(title=f"queues, seed {seed}")
    table.add_column("fault")
    for heading in (
        "rounds",
        "added",
        "twice",
        "missed",
        "moves",
        "with a repeat",
        "taken over",
        "repeated",
        "at most",
        "retried",
    ):
        table.add_column(heading, justify="right")
    for heading in ("EXACT handled", "repeated", "retried", "letters"):
        table.add_column(heading, justify="right")
    for fault in [*dict.fromkeys(row.fault for row in rows), ""]:
        table.add_row(fault or "all", *cells_of([row for row in rows if fault in ("", row.fault)]))
    return table


def cells_of(rows: list[Row]) -> Iterator[str]:
    yield str(len(rows))
    yield str(sum(row.owned.added for row in rows))
    yield str(sum(row.owned.twice for row in rows))
    yield str(sum(row.missed for row in rows))
    yield str(sum(row.moves for row in rows))
    yield str(sum(row.owned.moves_with_a_repeat for row in rows))
    yield str(sum(row.taken_over for row in rows))
    yield str(sum(row.owned.repeated for row in rows))
    yield str(sum(row.owned.bound for row in rows))
    yield str(sum(row.owned.retried for row in rows))
    yield str(sum(row.shared.handled for row in rows))
    yield str(sum(row.shared.repeated for row in rows))
    yield str(sum(row.shared.retried for row in rows))
    yield str(sum(row.letters for row in rows))


if __name__ == "__main__":
    app()
