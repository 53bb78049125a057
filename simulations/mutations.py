"""Deliberately broken lines, and how many worlds it takes to notice each.

A mutation is a textual patch of one file. It is applied to a copy of the package in a temporary directory, never to the
checkout, and a separate process runs seeds on the copy until a checker fails. The lines are in `broken_lines.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from simulations.broken_deletions import DELETIONS
from simulations.broken_disks import FULL_DISKS
from simulations.broken_letters import LETTERS
from simulations.broken_lines import MUTATIONS, Mutation
from simulations.broken_names import NAMES
from simulations.broken_partitions import PARTITIONED
from simulations.broken_queues import QUEUES
from simulations.broken_retention import RETENTION
from simulations.broken_rooms import ROOMS
from simulations.broken_sessions import SESSIONS
from simulations.broken_shards import SHARDED
from simulations.broken_spills import SPILLS
from simulations.checkers import run_checked
from simulations.history import Violation
from simulations.settings import Settings, draw_settings
from simulations.sharded import draw_run

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("crdtstream", "simulations")
IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "page")


@dataclass(frozen=True)
class Catch:
    """The first seed that noticed, the checker, and the number of seeds tried; the checker is empty if none noticed."""

    seed: int
    checker: str
    seeds: int
    text: str


ALL = (
    *MUTATIONS,
    *PARTITIONED,
    *ROOMS,
    *FULL_DISKS,
    *DELETIONS,
    *SESSIONS,
    *QUEUES,
    *RETENTION,
    *NAMES,
    *LETTERS,
    *SPILLS,
    *SHARDED,
)
NOTHING = Catch(0, "", 0, "")
NO_FOCUS: Mapping[str, Any] = MappingProxyType({})
# What worlds have only if the focus names it, so that the others are those for which the checkers were recorded.
PARTS = ("partitioned", "properties", "delivering", "spilling", "sharded")


def patched(mutation: Mutation, source: str) -> str:
    """Return the file with its broken line; the replaced text must occur exactly once."""
    found = source.count(mutation.before)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text occurs {found} times in {mutation.path}")
    return source.replace(mutation.before, mutation.after)


def copy_with(mutation: Mutation, folder: Path) -> None:
    """Copy the packages and apply the mutation."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=IGNORED)
    path = folder / "crdtstream" / mutation.path
    path.write_text(patched(mutation, path.read_text()))


def chase(mutation: Mutation, first: int, seeds_max: int) -> Catch:
    """Run seeds on a broken copy until one notices; a seed that also fails on the unbroken code does not count."""
    with tempfile.TemporaryDirectory() as name:
        copy_with(mutation, Path(name))
        catch = look(mutation, name, first, seeds_max)
        while catch.checker and complaint(catch.seed, mutation.watcher, mutation.focus):
            left = first + seeds_max - catch.seed - 1
            catch = look(mutation, name, catch.seed + 1, left) if left > 0 else NOTHING
    return replace(catch, seeds=catch.seed - first + 1 if catch.checker else seeds_max)


def look(mutation: Mutation, folder: str, first: int, seeds_max: int) -> Catch:
    arguments = f"{first}, {seeds_max}, {mutation.watcher!r}, {dict(mutation.focus)!r}"
    code = f"from simulations.mutations import hunt; hunt({arguments})"
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{mutation.name}: {ran.stderr[-2000:]}")
    return Catch(*json.loads(ran.stdout.splitlines()[-1]))


def complaint(seed: int, watcher: str = "", focus: Mapping[str, Any] = NO_FOCUS) -> tuple[str, str] | None:
    """Return the checker and its text if a run of this seed fails; with `watcher`, only that checker runs."""
    partitioned, properties, delivering, spilling, sharded = [bool(focus.get(name)) for name in PARTS]
    try:
        settings = settings_of(seed, focus)
        run = draw_run(seed, settings, partitioned, properties, delivering, spilling, sharded)
        run_checked(run, only=watcher)
    except Violation as violation:
        return (violation.checker, str(violation)) if watcher in ("", violation.checker) else None
    except Exception as error:
        return None if watcher else ("crash", f"{type(error).__name__}: {error}")
    return None


def settings_of(seed: int, focus: Mapping[str, Any]) -> Settings | None:
    """Return the seed's settings with those of the focus in place of some; None leaves all to the world."""
    changed = {name: value for name, value in focus.items() if name not in PARTS}
    return replace(draw_settings(Random(seed)), **changed) if changed else None


def hunt(first: int, seeds_max: int, watcher: str, focus: Mapping[str, Any]) -> None:
    """Run on the copy: print the first failure as one line of JSON."""
    for seed in range(first, first + seeds_max):
        found = complaint(seed, watcher, focus)
        if found is not None:
            print(json.dumps([seed, found[0], seed - first + 1, found[1][:300]]))
            return
    print(json.dumps([0, "", seeds_max, ""]))


def chase_all(first: int, seeds_max: int, only: str, workers: int) -> Iterator[tuple[Mutation, Catch]]:
    """Chase every mutation whose name contains this text, several at once; yields them in their order."""
    chosen = [mutation for mutation in ALL if only in mutation.name]
    # Threads: each waits for a process of its own.
    with ThreadPoolExecutor(workers) as pool:
        yield from zip(chosen, pool.map(lambda mutation: chase(mutation, first, seeds_max), chosen), strict=True)
