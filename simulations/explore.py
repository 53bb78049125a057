"""All short histories, on whole regions: the cluster that scenarios use, which does at once what it is told.

A *move* is one step of a scenario: a command in one region, "b hears everything that a has to say", a sync of a log, a
restart, after which a region is a new origin, or a power loss, which is a restart without what was not synced. There is
one key, one group, and one consumer for each region.

A *state* is the content of all logs, and how much of each is synced: starting from its log rebuilds a region exactly.
What regions have told each other beyond that (progress, births) is no part of it: of two histories that differ only
there, one is continued. Histories that differ only in the order of independent moves, or in the names of regions, are
one state, which is checked once. (Renaming reverses the order of two concurrent IDs and changes nothing else.) In every
state:

    rebuilt         a region rebuilt from its log has the same state, including local parts
    invariants      every structure passes its own check
    convergence     after everything is exchanged all digests are equal
    specification   and every region holds what simulations/oracle.py expects

States are visited level by level, so the first violation has a history of minimal length.

Reference: Lamport's causal order as Mazurkiewicz traces; Clarke et al., "Exploiting symmetry" (1996).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import permutations
from random import Random

from crdtstream.core.digest import digest_replica
from crdtstream.core.entries.merging import merge
from crdtstream.core.formats import PROPERTIES_FORMAT
from crdtstream.core.replica import Replica
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN, LIBERAL, format_id, mint
from crdtstream.protocols import codec
from crdtstream.region.node import Node
from crdtstream.storage.restore import open_storage
from simulations.cluster import Cluster
from simulations.history import Violation
from simulations.machine import SALT, Machine
from simulations.oracle import actual
from simulations.portrait import plain
from simulations.property_clients import unread_ids

KEY = (0, b"x")
GROUP = b"g"
NOW_MS = 100
NEXT_ORIGIN = 256
READ_BYTES = 1 << 20
CHUNK = 200

ADD, XDEL, TRIM, DEL, CREATE, CREATE_NEW, DESTROY, READ, ACK_LOW, ACK_HIGH, FSYNC, LOSE, RESTART, SYNC = range(14)
SET_EXACT, SET_CONTIGUOUS, ACK_UNREAD = range(14, 17)
NAMES = {
    "add": (ADD,),
    "xdel": (XDEL,),
    "trim": (TRIM,),
    "del": (DEL,),
    "create": (CREATE, CREATE_NEW),
    "destroy": (DESTROY,),
    "read": (READ,),
    "ack": (ACK_LOW, ACK_HIGH),
    "fsync": (FSYNC,),
    "crash": (LOSE,),
    "restart": (RESTART,),
    "sync": (SYNC,),
    "set": (SET_EXACT, SET_CONTIGUOUS),
    "ack elsewhere": (ACK_UNREAD,),
}
STEPS = {SYNC: "{1} -> {0}", FSYNC: "fsync {0}", LOSE: "power-loss {0}", RESTART: "kill {0}"}

# The action, the region that performs it, and for a sync the region that sends.
Move = tuple[int, int, int]
Path = tuple[Move, ...]
# One number for each naming of the regions.
Token = tuple[int, ...]


class Explored:
    """A few regions, every batch ever made, and for each position of each log a hash of the log up to there."""

    def __init__(self, regions: int) -> None:
        self.cluster = Cluster(regions, LIBERAL)
        self.cluster.sync()
        self.namings = list(permutations(range(1, regions + 1)))
        self.names_of_batches: dict[bytes, Token] = {}
        self.hashes: dict[int, list[Token]] = {number: [self._same(0)] for number in self.cluster.machines}
        # The last position when the region had just started.
        self.started: dict[int, int] = {}
        # The position of the last record that is more than what was learned of a peer.
        self.changed: dict[int, int] = dict.fromkeys(self.cluster.machines, 0)
        self.text: list[str] = []
        self._hash_new_records(0)
        for number, hashes in self.hashes.items():
            # All regions begin alike.
            hashes[:] = [self._same(0)] * len(hashes)
            self.started[number] = len(hashes) - 1

    def machine(self, number: int) -> Machine:
        return self.cluster.machines[number]

    def replica(self, number: int) -> Replica:
        return self.cluster.node(number).replica

    def key(self) -> int:
        """Return one number for all states that differ only in the names of regions."""
        keys: list[int] = []
        for at, naming in enumerate(self.namings):
            logs = [(log[-1][at], log[self.machine(number).log.synced_position][at]) for number, log in self._logs()]
            keys.append(hash(tuple(sorted(zip(naming, logs, strict=True)))))
        return min(keys)

    def _logs(self) -> list[tuple[int, list[Token]]]:
        return list(self.hashes.items())

    def _same(self, number: int) -> Token:
        return (number,) * len(self.namings)

    def run(self, path: Path) -> None:
        for move in path:
            self.make(move)

    # Moves

    def moves(self, actions: frozenset[int]) -> list[Move]:
        """Return the moves that would change something now."""
        found: list[Move] = []
        for number in self.cluster.machines:
            found += [(action, number, 0) for action in self._possible(number) if action in actions]
            if SYNC in actions:
                found += [(SYNC, number, giver) for giver in self.cluster.machines if self._gives(giver, number)]
        return found

    def _gives(self, giver: int, taker: int) -> bool:
        return not self.replica(taker).applied.vector.descends(self.replica(giver).applied.vector)

    def _possible(self, number: int) -> Iterator[int]:
        """Yield the moves of one region that would change something."""
        node, log = self.cluster.node(number), self.machine(number).log
        if log.synced_position < self.changed[number]:
            yield FSYNC
            yield LOSE
        if self.changed[number] > self.started[number]:
            yield RESTART
        for action in commands(node.replica):
            # A client that creates a group waits until the origin is admitted, one that sets a property until all
            # are known to read it.
            if action in (SET_EXACT, SET_CONTIGUOUS):
                if not node.context.cluster.neighbours.cannot_read(PROPERTIES_FORMAT):
                    yield action
            elif node.membership.admitted or action not in (CREATE, CREATE_NEW):
                yield action

    def make(self, move: Move) -> None:
        action, number, giver = move
        if action in STEPS:
            self.text.append("  " + STEPS[action].format(number, giver))
            self._step(action, number, giver)
        else:
            argv = words_of(self.replica(number), action)
            self.text.append(f"  {number}> {b' '.join(argv).decode()}")
            reply = self.cluster.execute(number, argv)
            assert reply is not None and not reply.startswith(b"-"), (argv, reply)
        self._hash_new_records(action)
        if action in (LOSE, RESTART):
            self.started[number] = len(self.hashes[number]) - 1

    def _step(self, action: int, number: int, giver: int) -> None:
        if action == SYNC:
            self.cluster.carry(giver, number)
        elif action == FSYNC:
            self.machine(number).sync()
        elif action == RESTART:
            self.cluster.restart(number)
        else:
            del self.hashes[number][self.machine(number).log.synced_position + 1 :]
            self.cluster.lose_power(number, Random(0), odds=0.0)

    def _hash_new_records(self, action: int) -> None:
        """Hash the records that the logs have gained. A batch of another region stands for its author's log then."""
        for number, hashes in self._logs():
            for _, kind, payload in self.machine(number).log.read(len(hashes), READ_BYTES):
                if kind == codec.LIMITED:
                    hashes.append(hashes[-1])
                    continue
                tokens = self.names_of_batches.get(payload) if kind == codec.BATCH else None
                pairs = zip(hashes[-1], tokens or self._same(action), strict=True)
                hashes.append(tuple([hash(pair) for pair in pairs]))
                self.changed[number] = len(hashes) - 1
                if kind == codec.BATCH and tokens is None:
                    named = [naming[number - 1] for naming in self.namings]
                    self.names_of_batches[payload] = tuple([hash(pair) for pair in zip(named, hashes[-1], strict=True)])
                    self.cluster.oracle.record(codec.decode_batch(payload))

    # Checks

    def check(self) -> None:
        """Check this state; raises Violation. Afterwards the regions have exchanged everything."""
        for machine in self.cluster.machines.values():
            check_rebuilt(machine)
        self.cluster.sync()
        self._hash_new_records(SYNC)
        digests = {number: digest_replica(self.replica(number)).hex() for number in self.cluster.machines}
        for number, machine in self.cluster.machines.items():
            self._check_against_oracle(number)
            check_rebuilt(machine)
        if len(set(digests.values())) > 1:
            raise Violation("convergence", f"digests differ: {digests}")

    def _check_against_oracle(self, number: int) -> None:
        replica = self.replica(number)
        expected = self.cluster.oracle.expected(replica.applied.vector).get(KEY)
        if expected is None:
            return
        held = actual(replica.keyspace.databases[0].get(KEY[1]) or Stream())
        runs = {dot: {origin: run for origin, run in known.items() if run} for dot, known in expected.runs.items()}
        for what, mine, wanted in (
            ("entries", held.entries, expected.entries),
            ("groups", held.groups, expected.groups),
            ("runs", held.runs, runs),
            ("properties", held.properties, expected.properties),
        ):
            if mine != wanted:
                raise Violation("specification", f"region {number}: {what} {mine}, expected {wanted}")


def check_rebuilt(machine: Machine) -> None:
    """Compare a region with what its log says; nothing is written."""
    machine.node.check()
    node, number = Node(machine.config, machine.node.context.now_ms), machine.number
    segment_bytes_max = machine.config.limits.segment_bytes_max
    open_storage(machine.disk.copy(), node, salt=SALT, segment_bytes_max=segment_bytes_max)
    rebuilt = node.replica
    rebuilt.applied.end_replay()
    rebuilt.check()
    rebuilt.acknowledge_all()
    if rebuilt.is_open:
        raise Violation("rebuilt", f"region {number} prepares something new after a restart")
    if whole(rebuilt) != whole(machine.node.replica):
        raise Violation(
            "rebuilt", f"region {number}: {whole(rebuilt)} from the log, {whole(machine.node.replica)} live"
        )


def whole(replica: Replica) -> list[object]:
    """Return everything that a replica knows about the key, including local parts."""
    stream = replica.keyspace.databases[0].get(KEY[1])
    return [replica.applied.origin, replica.applied.vector.as_dict(), digest_replica(replica), plain(stream)]


# Commands


def commands(replica: Replica) -> Iterator[int]:
    """Yield the commands that would change something here."""
    yield ADD
    stream = replica.keyspace.find(KEY)
    if stream is None:
        yield CREATE
        return
    yield DEL
    if stream.length:
        yield XDEL
    if stream.length > 1:
        yield TRIM
    group = stream.groups.get(GROUP)
    if group is None:
        yield CREATE
        if stream.length:
            yield CREATE_NEW
        return
    yield DESTROY
    yield SET_CONTIGUOUS if group.rules.exact else SET_EXACT
    if group.has_wanted(stream.chains):
        yield READ
        if group.rules.exact:
            yield ACK_UNREAD
    if group.pending.count:
        yield ACK_LOW
    if group.pending.count > 1:
        yield ACK_HIGH


def words_of(replica: Replica, action: int) -> list[bytes]:
    """Return the command of an action: `xdel` removes the newest entry, `trim` the oldest, `read` takes everything
    wanted, `ack` the lowest or highest pending ID, and `ack elsewhere` the highest that nobody got here.
    """
    name, stream = KEY[1], replica.keyspace.known(KEY)
    if action == ADD:
        entry_id = mint(NOW_MS, ID_MIN if stream is None else stream.top, replica.applied.origin)
        assert entry_id is not None
        return [b"XADD", name, format_id(entry_id), b"f", b"v"]
    if action in (CREATE, CREATE_NEW):
        return [b"XGROUP", b"CREATE", name, GROUP, b"$" if action == CREATE_NEW else b"0", b"MKSTREAM"]
    assert stream is not None
    if action == XDEL:
        newest = merge(stream.chain_ranges(ID_MIN, ID_MAX, 1, True), 1, reverse=True)[0]
        return [b"XDEL", name, format_id(newest.block.id_at(newest.low))]
    if action in (ACK_LOW, ACK_HIGH):
        rows = stream.groups[GROUP].pending.rows(ID_MIN, ID_MAX, -1, None)
        return [b"XACK", name, GROUP, format_id(rows[0 if action == ACK_LOW else -1].entry_id)]
    if action == ACK_UNREAD:
        return [b"XACK", name, GROUP, format_id(unread_ids(stream, GROUP)[-1])]
    return {
        DEL: [b"DEL", name],
        TRIM: [b"XTRIM", name, b"MAXLEN", b"%d" % (stream.length - 1)],
        DESTROY: [b"XGROUP", b"DESTROY", name, GROUP],
        SET_EXACT: [b"CRDT.GROUP", b"SET", name, GROUP, b"ACKNOWLEDGE", b"EXACT"],
        SET_CONTIGUOUS: [b"CRDT.GROUP", b"SET", name, GROUP, b"ACKNOWLEDGE", b"CONTIGUOUS"],
        READ: [b"XREADGROUP", b"GROUP", GROUP, b"c", b"STREAMS", name, b">"],
    }[action]


# The search


@dataclass
class Visit:
    """The result for one state: a violation, or where each move leads."""

    path: Path
    violation: str = ""
    next: list[tuple[int, Move]] = field(default_factory=list)


@dataclass
class Level:
    """All histories of one length."""

    operations: int
    histories: int
    states: int
    took_s: float


@dataclass
class Exploration:
    """The figures for each length, and the first violation with its history."""

    regions: int
    levels: list[Level] = field(default_factory=list)
    violation: str = ""
    path: Path = ()

    @property
    def histories(self) -> int:
        return sum(level.histories for level in self.levels)

    @property
    def states(self) -> int:
        return sum(level.states for level in self.levels)

    def scenario(self) -> str:
        return scenario_of(self.regions, self.path, self.violation)


def visit(regions: int, actions: frozenset[int], path: Path, expand: bool) -> Visit:
    visited = Visit(path)
    world = Explored(regions)
    try:
        world.run(path)
        moves = world.moves(actions) if expand else []
        world.check()
        for move in moves:
            reached = Explored(regions)
            reached.run((*path, move))
            visited.next.append((reached.key(), move))
    except Violation as violation:
        visited.violation = str(violation)
    except Exception as error:
        visited.violation = f"crash: {type(error).__name__}: {error}"
    return visited


def visit_all(work: tuple[int, frozenset[int], list[Path], bool]) -> list[Visit]:
    regions, actions, paths, expand = work
    return [visit(regions, actions, path, expand) for path in paths]


def visits(
    pool: Executor | None, regions: int, actions: frozenset[int], paths: list[Path], expand: bool
) -> Iterator[Visit]:
    works = [(regions, actions, paths[at : at + CHUNK], expand) for at in range(0, len(paths), CHUNK)]
    for found in map(visit_all, works) if pool is None else pool.map(visit_all, works):
        yield from found


def explore(regions: int, operations: int, workers: int = 1, names: tuple[str, ...] = tuple(NAMES)) -> Exploration:
    """Explore all histories of at most this many moves; stop after the level of the first violation."""
    actions = frozenset(action for name in names for action in NAMES[name])
    if workers == 1:
        return search(None, regions, operations, actions)
    with ProcessPoolExecutor(workers) as pool:
        return search(pool, regions, operations, actions)


def search(pool: Executor | None, regions: int, operations: int, actions: frozenset[int]) -> Exploration:
    """Visit each state where it is first reached. `edges` count the histories that reach a state again later, which is
    possible through a power loss.
    """
    result = Exploration(regions)
    root = Explored(regions).key()
    edges: dict[int, list[int]] = {root: []}
    fresh: dict[Path, int] = {(): root}
    histories: dict[int, int] = {root: 1}
    for length in range(operations + 1):
        began_s = time.monotonic()
        visited_count = len(fresh)
        following: dict[Path, int] = {}
        for visited in visits(pool, regions, actions, list(fresh), length < operations):
            if visited.violation and not result.violation:
                result.violation, result.path = visited.violation, visited.path
            edges[fresh[visited.path]] = [key for key, _ in visited.next]
            for key, move in visited.next:
                if key not in edges:
                    edges[key] = []
                    following[(*visited.path, move)] = key
        result.levels.append(Level(length, sum(histories.values()), visited_count, time.monotonic() - began_s))
        if result.violation:
            break
        histories = followed(edges, histories)
        fresh = following
    return result


def followed(edges: dict[int, list[int]], histories: dict[int, int]) -> dict[int, int]:
    """Count the histories that end in each state one move later."""
    later: dict[int, int] = {}
    for key, count in histories.items():
        for reached in edges[key]:
            later[reached] = later.get(reached, 0) + count
    return later


def scenario_of(regions: int, path: Path, title: str) -> str:
    """Return the history as a scenario without replies; running the scenarios with `--rewrite` fills them in."""
    world = Explored(regions)
    try:
        world.run(path)
    except Exception as error:
        world.text.append(f"# the last move raised {type(error).__name__}")
    head = [f"# {title}", f"regions {regions}", "id-mode liberal", "", "t1", "  sync"]
    return "\n".join([*head, *world.text, "t2", "  sync", ""])
