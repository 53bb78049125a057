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

from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.world import World

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crdtstream", "simulations")
IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "page")


@dataclass(frozen=True)
class Mutation:
    """What is broken, in which file of the package, and the text before and after."""

    name: str
    path: str
    before: str
    after: str


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
    ),
    Mutation(
        "a destroy leaves no tombstone",
        "core/stream.py",
        "        tombstones[slot] = counter\n        self",
        "        self",
    ),
    Mutation("a DEL leaves no tombstone", "core/stream.py", "        self.deleted[slot] = counter\n", ""),
    Mutation(
        "a DEL forgets concurrent destroys",
        "core/stream.py",
        "        self.forget_tombstones(context)\n        self.deleted[slot]",
        "        self.destroyed.clear()\n        self.deleted[slot]",
    ),
    Mutation(
        "a DEL removes what it has not seen",
        "core/stream.py",
        "tree.remove_through(context.get(origin))",
        "tree.remove_through(1 << 60)",
    ),
    Mutation(
        "a DEL keeps the groups",
        "core/stream.py",
        "        self.groups.clear()\n        # A create",
        "        # A create",
    ),
    Mutation(
        "a create needs no knowledge of destroys",
        "core/stream.py",
        "        for tombstones in (self.deleted, self.destroyed.get(group, {})):",
        "        for tombstones in (self.deleted,):",
    ),
    Mutation(
        "a run is kept under one create only",
        "core/group.py",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates]",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates][:1]",
    ),
    Mutation(
        "a run counts for creates that it does not name",
        "core/group.py",
        "alive = [self.creates[dot] for dot in creates if dot in self.creates]",
        "alive = list(self.creates.values())",
    ),
    Mutation(
        "a lower start of a joined create exposes nothing",
        "core/group.py",
        "        self.floor = self.floor.meet(start)\n",
        "",
    ),
    Mutation(
        "DELCONSUMER keeps what it lost as delivered",
        "core/group.py",
        "                delivered.remove(below, entry_id)\n",
        "",
    ),
    Mutation(
        "an acknowledgement is not flushed before a destroy",
        "core/replica.py",
        "        self.acknowledge_key(effect.key)\n        self._commit(effect)",
        "        self._commit(effect)",
    ),
    Mutation(
        "facts are replayed after their whole batch",
        "core/applying.py",
        "            if self._waiting_facts and batch.slot == self.slot:\n                self._release_facts()\n",
        "        if self._waiting_facts and batch.slot == self.slot:\n            self._release_facts()\n",
    ),
    Mutation(
        "facts are replayed before their batch",
        "core/applying.py",
        "        while self._waiting_facts and self._waiting_facts[0][0] <= counter:",
        "        while self._waiting_facts:",
    ),
    Mutation(
        "an XDEL names one counter too many",
        "commands/streams.py",
        "            ranges[slot] = ranges_of(counters)",
        "            ranges[slot] = [(low, high + 1) for low, high in ranges_of(counters)]",
    ),
    Mutation(
        "IDs are minted without the slot",
        "core/entry_id.py",
        "        return (now_ms, slot)",
        "        return (now_ms, 1)",
    ),
    Mutation(
        "no new origin after a power loss",
        "replication/birth.py",
        "        return not self._clean and self._boot_id != boot_id and self._policy != ALWAYS",
        "        return False",
    ),
    Mutation(
        "a lost disk keeps its incarnation",
        "replication/birth.py",
        "        if born:\n            self._bear(self._highest() + 1, turn)",
        "        if born:\n            self._bear(max(0, self._highest()), turn)",
    ),
    Mutation(
        "a birth counts before it is synced",
        "replication/exchange.py",
        "        return self._unsynced_births.get(slot, 0) <= self._synced",
        "        return True",
    ),
    Mutation(
        "no gate for dependencies",
        "replication/inbox.py",
        "        return vector.descends(self.arrivals[have + 1].arrival[0].context)",
        "        return True",
    ),
    Mutation(
        "only own batches are sent",
        "replication/feed.py",
        "if header.slot in self.direct and header.slot != own_slot:",
        "if header.slot != own_slot:",
    ),
    Mutation(
        "batches are sent back",
        "replication/session.py",
        "        self._feed.heard(header.slot, header.last)\n",
        "",
    ),
    Mutation(
        "a slot that is direct no more restarts nothing",
        "replication/session.py",
        "        if not set(direct).issuperset(self._asked_direct):",
        "        if False:",
    ),
    Mutation(
        "peers see what is not synced, under always",
        "node.py",
        "            if not self.outputs.holds:",
        "            if True:",
    ),
    Mutation(
        "replies do not wait for the disk, under always",
        "commands/outputs.py",
        "        if not self.holds:",
        "        if True:",
    ),
    Mutation(
        "a sync forgets the directory",
        "storage/log.py",
        "                self._disk.sync_directory()\n        except",
        "                pass\n        except",
    ),
    Mutation(
        "a sync forgets the sealed segments",
        "storage/log.py",
        "            for segment in sealed:\n                self._disk.sync(segment.name)\n",
        "            for segment in sealed:\n",
    ),
    Mutation(
        "a torn tail leaves its bytes",
        "storage/recovery.py",
        "        self._disk.truncate(segment.name, segment.end)\n",
        "",
    ),
    Mutation(
        "damage below a synced position is cut",
        "storage/recovery.py",
        "        self._refuse_with_witness(damage, names)\n",
        "",
    ),
    Mutation(
        "a manifest before the log is synced",
        "storage/checkpoint.py",
        "        assert self._log.sync() >= manifest.through\n",
        "",
    ),
    Mutation(
        "tombstones are collected by what is applied",
        "replication/progress.py",
        "        return VersionVector() if member is None else member.counted.copy()",
        "        return VersionVector() if member is None else member.applied.copy()",
    ),
    Mutation(
        "a join keeps entries that the other side has seen go",
        "core/tree_joining.py",
        "    for low, high in lacking(mine, theirs, their_known):\n        mine.remove_counters(low, high)\n",
        "",
    ),
    Mutation(
        "a join keeps creates that the other side has seen die",
        "core/group_joining.py",
        "        if dot in others or (follows and not other_vector.contains(dot[0], dot[1]))\n",
        "",
    ),
    Mutation(
        "an expiry is never taken over",
        "core/replica.py",
        "self.members.is_evicted(slot) or expires_ms + takeover_ms < self.now_ms",
        "self.members.is_evicted(slot)",
    ),
    Mutation(
        "the shortest expiry wins",
        "core/stream.py",
        "        self.expires_ms = expiries[-1][0] if",
        "        self.expires_ms = expiries[0][0] if",
    ),
    Mutation(
        "an expiry replaces only those of its own origin",
        "core/stream.py",
        "        for origin, meta in self.metas.items():\n            meta.void_expiry(context.get(origin))\n",
        "",
    ),
    Mutation(
        "an add to an expired key keeps what was there",
        "core/replica.py",
        "        elif stream.length == 0 or stream.expires_ms < self.now_ms:",
        "        elif stream.length == 0:",
    ),
    Mutation(
        "a create beyond an eviction counts",
        "core/members.py",
        "        return counter > self._ends.get(slot, NEVER)",
        "        return False",
    ),
    Mutation(
        "an evicted region goes on as it was",
        "replication/membership.py",
        "        if members.is_evicted(self._birth.slot()):\n",
        "        if False:\n",
    ),
    Mutation(
        "the tail of an evicted origin is dropped",
        "replication/exchange.py",
        "        if header.slot not in self._birth.known:\n",
        "        if self._replica.members.is_evicted(header.slot):\n            return None\n"
        "        if header.slot not in self._birth.known:\n",
    ),
    Mutation(
        "a joined state leaves no gap",
        "replication/history.py",
        "        self._gaps.append((position, gap))\n        self._after",
        "        self._after",
    ),
    Mutation(
        "a joined state brings no members",
        "replication/turn.py",
        "        self._replica.join_members(state.members)\n",
        "",
    ),
    Mutation(
        "replay applies what a checkpoint has",
        "core/applying.py",
        "            if not self._captured or self._captured.get(effect.key, 0) < position:",
        "            if True:",
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
        while catch.checker and complaint(catch.seed):
            left = first + seeds_max - catch.seed - 1
            catch = look(mutation, name, catch.seed + 1, left) if left > 0 else NOTHING
    return replace(catch, seeds=catch.seed - first + 1 if catch.checker else seeds_max)


def look(mutation: Mutation, folder: str, first: int, seeds_max: int) -> Catch:
    code = f"from simulations.mutations import hunt; hunt({first}, {seeds_max})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{mutation.name}: {ran.stderr[-2000:]}")
    return Catch(*json.loads(ran.stdout.splitlines()[-1]))


def complaint(seed: int) -> tuple[str, str] | None:
    """The checker and its text, where a run of this seed is wrong."""
    try:
        run_checked(World(seed))
    except Violation as violation:
        return violation.checker, str(violation)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"
    return None


def hunt(first: int, seeds_max: int) -> None:
    """What runs on the copy: prints the first complaint as one line of JSON."""
    for seed in range(first, first + seeds_max):
        found = complaint(seed)
        if found is not None:
            print(json.dumps([seed, found[0], seed - first + 1, found[1][:300]]))
            return
    print(json.dumps([0, "", seeds_max, ""]))


def chase_all(first: int, seeds_max: int, only: str) -> Iterator[tuple[Mutation, Catch]]:
    """Every mutation whose name has this text in it."""
    for mutation in MUTATIONS:
        if only in mutation.name:
            yield mutation, chase(mutation, first, seeds_max)
