"""Deliberately broken lines, and how many worlds it takes to notice each.

A mutation is a textual patch of one file, applied to a copy of the package in a temporary folder, never to the
checkout; a process of its own runs seeds on the copy until a checker complains. Invariant: the text that a mutation
replaces occurs exactly once in its file, which a test says when the code moves on.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from simulations.checkers import all_checkers, run_checked
from simulations.history import Violation
from simulations.world import World

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crdtstream", "simulations")
IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "page")


@dataclass(frozen=True)
class Mutation:
    """What is broken, in which file of the package, the text before and after, and the checker that notices first from
    seed 0 on. With `alone` that checker looks without the others, which would notice before it.

    `crash` stands for an exception, `rot` for a start or a run that ends for damage where nothing was harmed.
    """

    name: str
    path: str
    before: str
    after: str
    checker: str
    alone: bool = False

    @property
    def watcher(self) -> str:
        """The only checker that looks; empty for all."""
        return self.checker if self.alone else ""


@dataclass(frozen=True)
class Catch:
    """The first seed that noticed, what noticed it, and how many seeds that took; an empty checker when none did."""

    seed: int
    checker: str
    seeds: int
    text: str


NOTHING = Catch(0, "", 0, "")

MUTATIONS = (
    Mutation(
        "the ack frontier ignores pending entries",
        "core/group.py",
        "        first = self.pending.first(slot)\n        if first is None:\n            return ID_MAX\n",
        "        return ID_MAX\n        first = self.pending.first(slot)\n",
        "ack frontier",
    ),
    Mutation(
        "a destroy leaves no tombstone",
        "core/stream.py",
        "        tombstones[slot] = counter\n        self",
        "        self",
        "convergence",
    ),
    Mutation(
        "a DEL leaves no tombstone",
        "core/stream.py",
        "        self.deleted[slot] = counter\n",
        "",
        "convergence",
    ),
    Mutation(
        "a DEL forgets concurrent destroys",
        "core/stream.py",
        "        self.forget_tombstones(context)\n        self.deleted[slot]",
        "        self.destroyed.clear()\n        self.deleted[slot]",
        "convergence",
    ),
    Mutation(
        "a DEL removes what it has not seen",
        "core/stream.py",
        "tree.remove_through(context.get(origin))",
        "tree.remove_through(1 << 60)",
        "convergence",
    ),
    Mutation(
        "a DEL keeps the groups",
        "core/stream.py",
        "        self.groups.clear()\n        # A create",
        "        # A create",
        "convergence",
    ),
    Mutation(
        "a create needs no knowledge of destroys",
        "core/stream.py",
        "        for tombstones in (self.deleted, self.destroyed.get(group, {})):",
        "        for tombstones in (self.deleted,):",
        "audit",
    ),
    Mutation(
        "a run is kept under one create only",
        "core/group.py",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates]",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates][:1]",
        "runs",
    ),
    Mutation(
        "a run counts for creates that it does not name",
        "core/group.py",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates]",
        "alive = list(self.creates.values())",
        "convergence",
    ),
    Mutation(
        "a lower start of a joined create exposes nothing",
        "core/group.py",
        "        self.floor = self.floor.meet(start)\n",
        "",
        "delivery",
    ),
    Mutation(
        "DELCONSUMER keeps what it lost as delivered",
        "core/group.py",
        "                delivered.remove(below, entry_id)\n",
        "",
        "ack frontier",
    ),
    Mutation(
        "facts are replayed after their whole batch",
        "core/applying.py",
        "            if self._waiting_facts and batch.slot == self.slot:\n                self._release_facts()\n",
        "        if self._waiting_facts and batch.slot == self.slot:\n            self._release_facts()\n",
        "recovery",
    ),
    Mutation(
        "facts are replayed before their batch",
        "core/applying.py",
        "        while self._waiting_facts and self._waiting_facts[0][0] <= counter:",
        "        while self._waiting_facts:",
        "recovery",
    ),
    Mutation(
        "an XDEL names one counter too many",
        "commands/streams.py",
        "            ranges[slot] = ranges_of(counters)",
        "            ranges[slot] = [(low, high + 1) for low, high in ranges_of(counters)]",
        "convergence",
    ),
    Mutation(
        "IDs are minted without the slot",
        "core/entry_id.py",
        "        return (now_ms, slot)",
        "        return (now_ms, 1)",
        "unique IDs",
    ),
    Mutation(
        "no new origin after a power loss",
        "replication/birth.py",
        "        return not self._clean and self._boot_id != boot_id and self._policy != ALWAYS",
        "        return False",
        "convergence",
    ),
    Mutation(
        "a lost disk keeps its incarnation",
        "replication/birth.py",
        "        if born:\n            self._bear(self._highest() + 1, turn)",
        "        if born:\n            self._bear(max(0, self._highest()), turn)",
        "convergence",
    ),
    Mutation(
        "no gate for dependencies",
        "replication/inbox.py",
        "        return vector.descends(self.arrivals[have + 1].arrival[0].context)",
        "        return True",
        "crash",
    ),
    Mutation(
        "only own batches are sent",
        "replication/feed.py",
        "if header.slot in self.direct and header.slot != own_slot:",
        "if header.slot != own_slot:",
        "convergence",
    ),
    Mutation(
        "batches are sent back",
        "replication/session.py",
        "        self._feed.heard(header.slot, header.last)\n",
        "",
        "echo",
    ),
    Mutation(
        "peers see what is not synced, under always",
        "node.py",
        "            if not self.outputs.holds:",
        "            if True:",
        "convergence",
    ),
    Mutation(
        "replies do not wait for the disk, under always",
        "commands/outputs.py",
        "        if not self.holds:",
        "        if True:",
        "lost write",
    ),
    Mutation(
        "a sync forgets the directory",
        "storage/log.py",
        "                self._disk.sync_directory()\n        except",
        "                pass\n        except",
        "lost write",
    ),
    Mutation(
        "a sync forgets the sealed segments",
        "storage/log.py",
        "            for segment in sealed:\n                self._disk.sync(segment.name)\n",
        "            for segment in sealed:\n",
        "rot",
    ),
    Mutation(
        "damage below a synced position is cut",
        "storage/recovery.py",
        "        self._refuse_with_witness(damage, names)\n",
        "",
        "recovery",
    ),
    Mutation(
        "a manifest before the log is synced",
        "storage/checkpoint.py",
        "        assert self._log.sync() >= manifest.through\n",
        "",
        "rot",
    ),
    Mutation(
        "tombstones are collected by what is applied",
        "replication/progress.py",
        "        return VersionVector() if member is None else member.counted.copy()",
        "        return VersionVector() if member is None else member.applied.copy()",
        "collection",
    ),
    Mutation(
        "a join keeps entries that the other side has seen go",
        "core/tree_joining.py",
        "    for low, high in lacking(mine, theirs, their_known):\n        mine.remove_counters(low, high)\n",
        "",
        "crash",
    ),
    Mutation(
        "a join keeps creates that the other side has seen die",
        "core/group_joining.py",
        "        if dot in others or (follows and not other_vector.contains(dot[0], dot[1]))\n",
        "",
        "delete wins",
    ),
    Mutation(
        "an expiry is never taken over",
        "core/replica.py",
        "self.members.is_evicted(slot) or expires_ms + takeover_ms < self.now_ms",
        "self.members.is_evicted(slot)",
        "expiry",
    ),
    Mutation(
        "the shortest expiry wins",
        "core/stream.py",
        "        self.expires_ms = expiries[-1][0] if",
        "        self.expires_ms = expiries[0][0] if",
        "invariants",
    ),
    Mutation(
        "an expiry replaces only those of its own origin",
        "core/stream.py",
        "        for origin, meta in self.metas.items():\n            meta.void_expiry(context.get(origin))\n",
        "",
        "hidden key",
    ),
    Mutation(
        "an add to an expired key keeps what was there",
        "core/replica.py",
        "        elif stream.length == 0 or stream.expires_ms < self.now_ms:",
        "        elif stream.length == 0:",
        "hidden key",
    ),
    Mutation(
        "a create beyond an eviction counts",
        "core/members.py",
        "        return counter > self._ends.get(slot, NEVER)",
        "        return False",
        "convergence",
    ),
    Mutation(
        "an evicted region goes on as it was",
        "replication/membership.py",
        "        if members.is_evicted(self._birth.slot()):\n",
        "        if False:\n",
        "convergence",
    ),
    Mutation(
        "the tail of an evicted origin is dropped",
        "replication/exchange.py",
        "        if header.slot not in self._birth.known:\n",
        "        if self._replica.members.is_evicted(header.slot):\n            return None\n"
        "        if header.slot not in self._birth.known:\n",
        "convergence",
    ),
    Mutation(
        "a joined state leaves no gap",
        "replication/history.py",
        "        self._gaps.append((position, gap))\n        self._after",
        "        self._after",
        "convergence",
    ),
    Mutation(
        "a joined state brings no members",
        "replication/turn.py",
        "        self._replica.join_members(state.members)\n",
        "",
        "convergence",
    ),
    Mutation(
        "replay applies what a checkpoint has",
        "core/applying.py",
        "            if not self._captured or self._captured.get(effect.key, 0) < position:",
        "            if True:",
        "crash",
    ),
    Mutation(
        "a removal takes the first range of an origin alone",
        "core/stream.py",
        "                for low, high in pieces:\n                    tree.remove_counters",
        "                for low, high in pieces[:1]:\n                    tree.remove_counters",
        "observed remove",
    ),
    Mutation(
        "an expiry stays that the next effect replaces",
        "core/stream.py",
        "if self.expiry_counter <= covered:",
        "if self.expiry_counter < covered:",
        "longest expiry",
    ),
    Mutation(
        "a join takes what lies above the last entry here",
        "core/tree_joining.py",
        "    first = theirs.first_above(known)\n    if first is not None:\n        for",
        "    last = last_of(mine)\n    first = theirs.first_above(0 if last is None else last[1])\n"
        "    if first is not None:\n        for",
        "resurrection",
        alone=True,
    ),
    Mutation(
        "a gap counts what is missing",
        "replication/turn.py",
        "VersionVector({slot: count for slot, count in state.vector.items() if",
        "VersionVector({slot: count - own.get(slot) for slot, count in state.vector.items() if",
        "origin order",
    ),
    Mutation(
        "a log that was cut has no milestone at its beginning",
        "replication/history.py",
        "            self._mark_beginning()\n",
        "",
        "resume",
    ),
    Mutation(
        "a restart tells no vector",
        "replication/session.py",
        "            message.links.vector.extend(vector_rows(self._host.vector))\n",
        "",
        "echo",
    ),
    Mutation(
        "progress of others is not passed on",
        "replication/session.py",
        "rows = [row for row in host.progress.rows() if row[0] not in (own_slot, peer_slot)]",
        "rows: list[ProgressRow] = []",
        "bounded memory",
    ),
    Mutation(
        "an older incarnation counts for ever",
        "core/members.py",
        "return any(stable.contains(dot[0], dot[1]) for other in newer for dot in self._joins[other])",
        "return False",
        "bounded memory",
    ),
    Mutation(
        "a checkpoint forgets under which policy the region wrote",
        "replication/birth.py",
        "[*told, (codec.START, codec.encode_start(self._boot_id, self._policy))]",
        "told",
        "unique dots",
        alone=True,
    ),
    Mutation(
        "a reader goes on in a segment that has ended",
        "storage/log.py",
        "if stop is not None and position <= stop[0].last:",
        "if stop is not None:",
        "damage",
    ),
)


def patched(mutation: Mutation, source: str) -> str:
    """The file with its broken line; the text must occur once."""
    found = source.count(mutation.before)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text occurs {found} times in {mutation.path}")
    return source.replace(mutation.before, mutation.after)


def copy_with(mutation: Mutation, folder: Path) -> None:
    """The packages, with the mutation applied."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=IGNORED)
    path = folder / "crdtstream" / mutation.path
    path.write_text(patched(mutation, path.read_text()))


def chase(mutation: Mutation, first: int, seeds_max: int) -> Catch:
    """Run seeds on a broken copy until one of them notices; a seed that complains of the code as it is says nothing."""
    with tempfile.TemporaryDirectory() as name:
        copy_with(mutation, Path(name))
        catch = look(mutation, name, first, seeds_max)
        while catch.checker and complaint(catch.seed, mutation.watcher):
            left = first + seeds_max - catch.seed - 1
            catch = look(mutation, name, catch.seed + 1, left) if left > 0 else NOTHING
    return replace(catch, seeds=catch.seed - first + 1 if catch.checker else seeds_max)


def look(mutation: Mutation, folder: str, first: int, seeds_max: int) -> Catch:
    code = f"from simulations.mutations import hunt; hunt({first}, {seeds_max}, {mutation.watcher!r})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{mutation.name}: {ran.stderr[-2000:]}")
    return Catch(*json.loads(ran.stdout.splitlines()[-1]))


def complaint(seed: int, watcher: str = "") -> tuple[str, str] | None:
    """The checker and its text, where a run of this seed is wrong; of one checker what it says alone."""
    checkers = [checker for checker in all_checkers() if watcher in ("", checker.name)]
    try:
        run_checked(World(seed), checkers)
    except Violation as violation:
        return (violation.checker, str(violation)) if watcher in ("", violation.checker) else None
    except Exception as error:
        return None if watcher else ("crash", f"{type(error).__name__}: {error}")
    return None


def hunt(first: int, seeds_max: int, watcher: str) -> None:
    """What runs on the copy: prints the first complaint as one line of JSON."""
    for seed in range(first, first + seeds_max):
        found = complaint(seed, watcher)
        if found is not None:
            print(json.dumps([seed, found[0], seed - first + 1, found[1][:300]]))
            return
    print(json.dumps([0, "", seeds_max, ""]))


def chase_all(first: int, seeds_max: int, only: str) -> Iterator[tuple[Mutation, Catch]]:
    """Every mutation whose name has this text in it."""
    for mutation in MUTATIONS:
        if only in mutation.name:
            yield mutation, chase(mutation, first, seeds_max)
