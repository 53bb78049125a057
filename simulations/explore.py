"""All short histories, on the real core.

A *move* is one command in one region, one sync in one direction ("b applies everything that a has"), a restart, after
which a region is a new origin, or a power loss, which is a restart without the last record of the log. Regions are
replicas with the records that their logs would hold, without a node, so that nothing waits for members; they run the
commands that clients would send, and everything they exchange goes through the codec. There is one key, one group, and
one consumer for each region.

A *state* is the content of all logs, since replaying a log rebuilds its region exactly. Histories that differ only in
the order of independent moves, or in the names of regions, are therefore one state, which is checked once. (Renaming
reverses the order of two concurrent IDs and changes nothing else.) In every state:

    rebuilt         a region rebuilt from its records has the same state, including local parts
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

from crdtstream.clients.client import Client
from crdtstream.clients.cluster import Cluster, Peer
from crdtstream.clients.context import Context
from crdtstream.clients.settings import Settings
from crdtstream.clients.standing import Standing
from crdtstream.commands.dispatch import dispatch
from crdtstream.config import Config
from crdtstream.core.causality import VersionVector
from crdtstream.core.digest import digest_replica
from crdtstream.core.entry_id import ID_MAX, ID_MIN, LIBERAL, format_id, mint
from crdtstream.core.merging import merge
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream
from crdtstream.protocols import codec
from crdtstream.replication.progress import ProgressTable
from simulations.history import Violation
from simulations.oracle import Oracle, actual
from simulations.portrait import plain

KEY = (0, b"x")
GROUP = b"g"
CONFIG = Config(name="", region=0, cluster="", id_mode=LIBERAL)
NOW_MS = 100
NEXT_ORIGIN = 256
ROUNDS_MAX = 20
CHUNK = 200

ADD, XDEL, TRIM, DEL, CREATE, CREATE_NEW, DESTROY, READ, ACK_LOW, ACK_HIGH, LOSE, RESTART, SYNC = range(13)
NAMES = {
    "add": (ADD,),
    "xdel": (XDEL,),
    "trim": (TRIM,),
    "del": (DEL,),
    "create": (CREATE, CREATE_NEW),
    "destroy": (DESTROY,),
    "read": (READ,),
    "ack": (ACK_LOW, ACK_HIGH),
    "crash": (LOSE,),
    "restart": (RESTART,),
    "sync": (SYNC,),
}
BATCH, FACTS, START = range(3)

# The action, the region that performs it, and for a sync the region that sends.
Move = tuple[int, int, int]
Path = tuple[Move, ...]


class Site:
    """One region: its replica, its log, and after each record a hash of the log for every naming of the regions."""

    def __init__(self, region: int, namings: int) -> None:
        self.region = region
        self.slot = region
        self.replica = Replica(region)
        self.replica.keyspace.now_ms = NOW_MS
        self.records: list[tuple[int, bytes]] = []
        self.hashes: list[tuple[int, ...]] = [(0,) * namings]

    def append(self, kind: int, payload: bytes, tokens: tuple[int, ...]) -> None:
        self.records.append((kind, payload))
        self.hashes.append(tuple(hash(pair) for pair in zip(self.hashes[-1], tokens, strict=True)))

    def rebuilt(self) -> Replica:
        """Rebuild the region from its records."""
        replica = Replica(self.region)
        replica.keyspace.now_ms = NOW_MS
        slot = self.region
        for kind, payload in self.records:
            if kind == BATCH:
                replica.apply_batch(codec.decode_batch(payload))
            elif kind == FACTS:
                replica.applied.replay_facts(*codec.decode_facts(payload))
            else:
                slot += NEXT_ORIGIN
                replica.applied.drop_waiting_facts()
                replica.applied.slot = slot
        replica.applied.drop_waiting_facts()
        return replica


class Explored:
    """A few regions, and every batch ever made."""

    def __init__(self, regions: int) -> None:
        self.namings = list(permutations(range(1, regions + 1)))
        self.sites = [Site(region, len(self.namings)) for region in range(1, regions + 1)]
        self.names_of_batches: dict[bytes, tuple[int, ...]] = {}
        self.oracle = Oracle()
        self.text: list[str] = []

    def site(self, region: int) -> Site:
        return self.sites[region - 1]

    def key(self) -> int:
        """Return one number for all states that differ only in the names of regions."""
        keys: list[int] = []
        for at, naming in enumerate(self.namings):
            renamed = sorted(zip(naming, (site.hashes[-1][at] for site in self.sites), strict=True))
            keys.append(hash(tuple(renamed)))
        return min(keys)

    def run(self, path: Path) -> None:
        for move in path:
            self.make(move)

    # Moves

    def moves(self, actions: frozenset[int]) -> list[Move]:
        """Return the moves that would change something now."""
        found: list[Move] = []
        for site in self.sites:
            found += [(action, site.region, 0) for action in possible(site) if action in actions]
            if SYNC in actions:
                found += [(SYNC, site.region, giver.region) for giver in self.sites if self._gives(giver, site)]
        return found

    def _gives(self, giver: Site, taker: Site) -> bool:
        return giver is not taker and not taker.replica.applied.vector.descends(giver.replica.applied.vector)

    def make(self, move: Move) -> None:
        action, region, giver = move
        site = self.site(region)
        if action == SYNC:
            self.text.append(f"  {giver} -> {region}")
            self._sync(self.site(giver), site)
        elif action == LOSE:
            self.text.append(f"  power-loss {region}")
            self._restart(site, action)
        elif action == RESTART:
            self.text.append(f"  kill {region}")
            self._restart(site, action)
        else:
            argv = words_of(site.replica, action)
            execute(site.replica, argv)
            self.text.append(f"  {region}> {b' '.join(argv).decode()}")
            self._end_turn(site, action)

    def _end_turn(self, site: Site, action: int) -> None:
        """Log what was prepared: facts, then the batch."""
        site.replica.acknowledge_all()
        taken = site.replica.take()
        same = (action,) * len(self.namings)
        if taken.facts:
            site.append(FACTS, codec.encode_facts(taken.facts, taken.through), same)
        if taken.batch is not None:
            payload = codec.encode_batch(taken.batch)
            site.append(BATCH, payload, same)
            named = [naming[site.region - 1] for naming in self.namings]
            self.names_of_batches[payload] = tuple(hash(pair) for pair in zip(named, site.hashes[-1], strict=True))
            self.oracle.note(codec.decode_batch(payload))

    def _sync(self, giver: Site, taker: Site) -> None:
        replica = taker.replica
        for kind, payload in list(giver.records):
            if kind == BATCH:
                batch = codec.decode_batch(payload)
                if not replica.applied.vector.contains(batch.slot, batch.last):
                    replica.apply_batch(batch)
                    taker.append(BATCH, payload, self.names_of_batches[payload])
        self._end_turn(taker, SYNC)

    def _restart(self, site: Site, action: int) -> None:
        if action == LOSE:
            site.records.pop()
            site.hashes.pop()
        site.append(START, b"", (action,) * len(self.namings))
        site.replica = site.rebuilt()
        self._end_turn(site, action)

    def exchange(self) -> None:
        """Sync all regions with each other."""
        for _ in range(ROUNDS_MAX):
            pairs = [(a, b) for a in self.sites for b in self.sites if self._gives(a, b)]
            if not pairs:
                return
            for giver, taker in pairs:
                self._sync(giver, taker)
        raise Violation("convergence", "the regions never become quiet")

    # Checks

    def check(self) -> None:
        """Check this state; raises Violation. Afterwards the regions have exchanged everything."""
        for site in self.sites:
            check_rebuilt(site)
        self.exchange()
        digests = {site.region: digest_replica(site.replica).hex() for site in self.sites}
        for site in self.sites:
            self._check_against_oracle(site)
            check_rebuilt(site)
        if len(set(digests.values())) > 1:
            raise Violation("convergence", f"digests differ: {digests}")

    def _check_against_oracle(self, site: Site) -> None:
        expected = self.oracle.expected(site.replica.applied.vector).get(KEY)
        if expected is None:
            return
        held = actual(site.replica.keyspace.databases[0].get(KEY[1]) or Stream())
        runs = {dot: {slot: run for slot, run in known.items() if run} for dot, known in expected.runs.items()}
        for what, mine, wanted in (
            ("entries", held.entries, expected.entries),
            ("groups", held.groups, expected.groups),
            ("runs", held.runs, runs),
        ):
            if mine != wanted:
                raise Violation("specification", f"region {site.region}: {what} {mine}, expected {wanted}")


def check_rebuilt(site: Site) -> None:
    site.replica.check()
    rebuilt = site.rebuilt()
    rebuilt.check()
    rebuilt.acknowledge_all()
    taken = rebuilt.take()
    if taken.facts or taken.batch is not None:
        raise Violation("rebuilt", f"region {site.region} prepares something new after a restart")
    if whole(rebuilt) != whole(site.replica):
        raise Violation("rebuilt", f"region {site.region}: {whole(rebuilt)} from the log, {whole(site.replica)} live")


def whole(replica: Replica) -> list[object]:
    """Return everything that a replica knows about the key, including local parts."""
    stream = replica.keyspace.databases[0].get(KEY[1])
    return [replica.applied.slot, replica.applied.vector.as_dict(), digest_replica(replica), plain(stream)]


# Commands


def possible(site: Site) -> Iterator[int]:
    """Yield the commands that would change something here, and whether a restart would."""
    yield ADD
    stream = site.replica.keyspace.find(KEY)
    if site.records and site.records[-1][0] != START:
        yield LOSE
        yield RESTART
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
    if group.has_wanted(stream.chains):
        yield READ
    if group.pending.count:
        yield ACK_LOW
    if group.pending.count > 1:
        yield ACK_HIGH


def words_of(replica: Replica, action: int) -> list[bytes]:
    """Return the command of an action: `xdel` removes the newest entry, `trim` the oldest, `read` takes everything
    wanted, and `ack` the lowest or highest pending ID.
    """
    name, stream = KEY[1], replica.keyspace.known(KEY)
    if action == ADD:
        entry_id = mint(NOW_MS, ID_MIN if stream is None else stream.top, replica.applied.slot)
        assert entry_id is not None
        return [b"XADD", name, format_id(entry_id), b"f", b"v"]
    if action in (CREATE, CREATE_NEW):
        return [b"XGROUP", b"CREATE", name, GROUP, b"$" if action == CREATE_NEW else b"0", b"MKSTREAM"]
    assert stream is not None
    if action == XDEL:
        newest = merge(stream.strands(ID_MIN, ID_MAX, 1, True), 1, reverse=True)[0]
        return [b"XDEL", name, format_id(newest.block.id_at(newest.low))]
    if action in (ACK_LOW, ACK_HIGH):
        rows = stream.groups[GROUP].pending.rows(ID_MIN, ID_MAX, -1, None)
        return [b"XACK", name, GROUP, format_id(rows[0 if action == ACK_LOW else -1].entry_id)]
    return {
        DEL: [b"DEL", name],
        TRIM: [b"XTRIM", name, b"MAXLEN", b"%d" % (stream.length - 1)],
        DESTROY: [b"XGROUP", b"DESTROY", name, GROUP],
        READ: [b"XREADGROUP", b"GROUP", GROUP, b"c", b"STREAMS", name, b">"],
    }[action]


class Nobody:
    """The other regions, as far as commands may ask: none."""

    def follow(self, peers: tuple[str, ...]) -> None:
        """None stay none."""

    def peers(self) -> list[Peer]:
        return []

    def durable(self) -> VersionVector:
        return VersionVector()

    def count_of(self, slot: int) -> int:
        return -1


def execute(replica: Replica, argv: list[bytes]) -> None:
    """Run a command as the node does, without what a node adds: nothing is refused or waits."""
    ports = Cluster(ProgressTable(), Nobody())
    context = Context(Settings(CONFIG), Standing(), replica, ports, [], NOW_MS)
    reply = dispatch(context, Client(1, "127.0.0.1:0", NOW_MS, context.users.default), argv)
    assert reply is not None and not reply.startswith(b"-"), (argv, reply)


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
    head = [f"# {title}", f"regions {regions}", "id-mode liberal", "", "t1"]
    return "\n".join([*head, *world.text, "t2", "  sync", ""])
