"""Reduces a failing seed to the shortest scenario that fails in the same way.

The run is converted to a scenario (simulations/reproducer.py), on a cluster without clocks, which must violate the same
checker. Then `minimise` removes every step that the violation does not need, and `simpler` simplifies the rest. Every
attempt runs the whole scenario, so the result fails by itself. Time passes only if nothing fails without it. A
violation that a scenario cannot express is not reproduced.

Reference: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from simulations.adversary import draw_world
from simulations.checkers import run_checked
from simulations.draw import named
from simulations.history import Violation
from simulations.reproducer import CLOCK, CRASH, Recorder, Reproducer, Step, crash_name
from simulations.settings import Settings

RUNS_MAX = 3_000
LONG_NUMBER = re.compile(r"(?<![\w-])\d{7,}(?=-|\s|$)")
ID = re.compile(r"\d+-\d+")
EVICT = re.compile(r"(?<=CRDT\.EVICT )\d+")

# Fewer steps

Fails = Callable[[list[Step]], bool]


def minimise(steps: list[Step], fails: Fails) -> list[Step]:
    """Return a part of the steps that fails and of which no step can be removed; tries halves, then ever smaller
    pieces.
    """
    size = max(1, len(steps) // 2)
    while steps:
        smaller = _without_pieces(steps, size, fails)
        if size == 1 and len(smaller) == len(steps):
            return steps
        if len(smaller) == len(steps) or size > len(smaller):
            size = max(1, size // 2)
        steps = smaller
    return steps


def _without_pieces(steps: list[Step], size: int, fails: Fails) -> list[Step]:
    """Remove pieces from the end, since most of what follows the cause is noise."""
    end = len(steps)
    while end > 0:
        shorter = steps[: max(0, end - size)] + steps[end:]
        if fails(shorter):
            steps = shorter
        end -= size
    return steps


# Simpler steps


def simpler(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield variants of the steps, each simpler in one respect."""
    yield from _whole(steps)
    for at, step in enumerate(steps):
        for text in _simpler_texts(step):
            yield [*steps[:at], replace(step, text=text), *steps[at + 1 :]]


def _whole(steps: list[Step]) -> Iterator[list[Step]]:
    carried = [replace(step, text=carried_text(step)) for step in steps if not step.text.startswith("send ")]
    if carried != steps:
        yield carried
    alone = [replace(step, turn=at + 1) if step.is_command else step for at, step in enumerate(steps)]
    if len({step.turn for step in steps}) < len({step.turn for step in alone}):
        yield alone
    small = renumbered(steps)
    if small != steps:
        yield small


def carried_text(step: Step) -> str:
    match = None if step.is_command else re.fullmatch(r"arrive (\d+) (\d+)", step.text)
    return f"{match[1]} -> {match[2]}" if match else step.text


def renumbered(steps: list[Step]) -> list[Step]:
    """Replace long numbers, which are times, by small ones in the same order."""
    found = {int(number) for step in steps if step.is_command for number in LONG_NUMBER.findall(step.text)}
    names = {str(number): str(100 * (at + 1)) for at, number in enumerate(sorted(found))}
    return [
        replace(step, text=LONG_NUMBER.sub(lambda match: names[match[0]], step.text)) if step.is_command else step
        for step in steps
    ]


def _simpler_texts(step: Step) -> Iterator[str]:
    if not step.is_command:
        if step.text != "sync":
            yield "sync"
        return
    words = step.text.split()
    for at, word in enumerate(words):
        if word in ("MAXLEN", "COUNT"):
            yield " ".join(words[:at] + words[at + 2 :])
        elif word == "NOACK" or (at > 2 and ID.fullmatch(word) and len(ID.findall(step.text)) > 1):
            yield " ".join(words[:at] + words[at + 1 :])


def fewer_regions(reproducer: Reproducer) -> Iterator[Reproducer]:
    """Yield variants with a mesh if possible, and only with regions that do something, renumbered."""
    if reproducer.settings.topology != "mesh":
        yield replace(reproducer, settings=replace(reproducer.settings, topology="mesh"))
    if reproducer.fsync:
        yield replace(reproducer, fsync=())
    used = sorted({number for step in reproducer.steps for number in regions_of(step)})
    names = {number: at + 1 for at, number in enumerate(used)}
    settings = replace(reproducer.settings, regions=max(2, len(used)), topology="mesh")
    if settings.regions < reproducer.settings.regions and len(used) > 1:
        fsync = tuple(reproducer.fsync[number - 1] for number in used) if reproducer.fsync else ()
        steps = [renamed(step, names) for step in reproducer.steps]
        yield replace(reproducer, settings=settings, steps=steps, fsync=fsync)


def regions_of(step: Step) -> list[int]:
    numbers = [int(number) for number in re.findall(r"\d+", step.text)]
    if step.is_command:
        return [step.region, *(int(region) for region in EVICT.findall(step.text))]
    return numbers[: 0 if step.text.startswith(CLOCK) else 1 if "disk-loss" in step.text else 2]


def renamed(step: Step, names: dict[int, int]) -> Step:
    """Rename regions in a step; strict IDs end with the number of the region that minted them."""
    if step.is_command:
        text = ID.sub(lambda found: renamed_id(found[0], names), step.text)
        text = EVICT.sub(lambda found: str(names[int(found[0])]), text)
        return replace(step, region=names[step.region], text=text)
    words = step.text.split()
    places = len(regions_of(step))
    for at in [at for at, word in enumerate(words) if word.isdigit()][:places]:
        words[at] = str(names[int(words[at])])
    return replace(step, text=" ".join(words))


def renamed_id(text: str, names: dict[int, int]) -> str:
    time, _, sequence = text.partition("-")
    region = int(sequence) & 0xFF
    return f"{time}-{int(sequence) - region + names.get(region, region)}"


# The whole way


@dataclass
class Shrunk:
    """The result for a seed; `reproducer` is None if its violation could not be reproduced."""

    violation: str
    steps_before: int = 0
    runs: int = 0
    reproducer: Reproducer | None = None


class Shrinker:
    """Searches for a shorter reproducer with the same violation, within `runs_max` runs."""

    def __init__(self, reproducer: Reproducer, wanted: str, runs_max: int = RUNS_MAX) -> None:
        self.reproducer = reproducer
        self.wanted = wanted
        self.runs = 0
        self.runs_max = runs_max

    def fails(self, steps: list[Step]) -> bool:
        return self._fails(replace(self.reproducer, steps=steps))

    def _fails(self, reproducer: Reproducer) -> bool:
        if self.runs >= self.runs_max:
            return False
        self.runs += 1
        return reproducer.violated() == self.wanted

    def shrink(self) -> bool:
        """Shrink the reproducer; False if it does not fail as expected."""
        if not self._begin():
            return False
        before: list[Step] = []
        while before != self.reproducer.steps:
            before = self.reproducer.steps
            self.reproducer.steps = minimise(before, self.fails)
            self._simplify()
        return True

    def _begin(self) -> bool:
        """Find a failing start: the plan as it was, with whole exchanges instead of single messages, or with minted
        IDs.
        """
        chosen = [replace(step, text=step.sent or step.text) for step in self.reproducer.steps]
        for steps in [self.reproducer.steps, *_whole(self.reproducer.steps), chosen]:
            if self.fails(steps):
                self.reproducer.steps = steps
                return True
        return False

    def _simplify(self) -> None:
        for _ in range(3):
            reproducer = next(filter(self._fails, fewer_regions(self.reproducer)), None)
            if reproducer is None:
                break
            self.reproducer = reproducer
        simplified = True
        while simplified:
            simplified = False
            for steps in simpler(self.reproducer.steps):
                if self.fails(steps):
                    self.reproducer.steps, simplified = steps, True
                    break


def shrink(seed: int, settings: Settings | None = None, runs_max: int = RUNS_MAX) -> Shrunk | None:
    """Return the shortest reproducer that fails as the seed does; None if the seed does not fail."""
    recorder = Recorder()
    world = draw_world(seed, settings, recorder)
    try:
        run_checked(world)
    except Violation as violation:
        what, wanted = str(violation), violation.checker
    except Exception as error:
        what, wanted = f"{crash_name(error)}: {error}", crash_name(error)
    else:
        return None
    steps = recorder.plan()
    check = "" if wanted.startswith(CRASH) else wanted
    reproducer = Reproducer(world.settings, steps, f"{named(seed).capitalize()}: {wanted}", check, recorder.fsync())
    shrinker = Shrinker(reproducer, wanted, runs_max)
    found = shrinker.shrink()
    if not found:
        shrinker.reproducer.steps = recorder.plan(clocks=True)
        found = shrinker.shrink()
    return Shrunk(what, len(steps), shrinker.runs, shrinker.reproducer if found else None)
