"""The search by hypothesis: the same seed gives the same inputs, and one that fails is made as small as possible."""

from __future__ import annotations

import re
import time
from ast import literal_eval
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

from hypothesis import Phase, reproduce_failure, settings
from hypothesis import seed as seeded
from hypothesis.errors import DidNotReproduce

from fuzz import commanding, parsing
from fuzz.target import UNHURRIED, Target

TARGETS = {target.name: target for target in (parsing.TARGET, commanding.TARGET)}
# What hypothesis prints of an input that fails: a version and the choices that make it.
RECIPE = re.compile(r"@reproduce_failure\(('[^']*', b(?:'[^']*'|\"[^\"]*\"))\)")


class Failed(Exception):
    """An input for which a property does not hold; the cause is what the target raised."""

    def __init__(self, target: str, cause: BaseException) -> None:
        super().__init__(f"{target}: {type(cause).__name__}")
        self.target = target
        notes = "\n".join(getattr(cause, "__notes__", []))
        found = RECIPE.search(notes)
        self.recipe = found[0] if found else ""

    def store(self, directory: Path) -> Path:
        """Write how to make the input again to a file that is named by it."""
        place = directory / f"fuzz-{self.target}-{sha1(self.recipe.encode()).hexdigest()[:12]}"
        place.write_text(self.recipe, encoding="ascii")
        return place


def search(target: Target, seed: int, seconds: float = 0.0, runs: int = 0, shrink: bool = True) -> int:
    """Try inputs until the time or the number is used up; returns how many it were. Making one that fails small may
    take minutes.
    """
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    end, tried = time.monotonic() + seconds, 0
    while tried < runs if runs else time.monotonic() < end:
        count = min(target.batch, runs - tried) if runs else target.batch
        test = seeded(f"{seed} {tried}")(target.test(settings(UNHURRIED, max_examples=count, phases=phases)))
        try:
            test()
        except Exception as fault:
            raise Failed(target.name, fault) from fault
        tried += count
    return tried


def replay(target: Target, data: bytes) -> None:
    """Run a stored input, of a search or of a guided one; nothing is raised if it no longer fails."""
    recipe = RECIPE.fullmatch(data.decode("latin-1"))
    if recipe is None:
        target.run(data)
        return
    version, blob = literal_eval(recipe[1])
    with suppress(DidNotReproduce):
        reproduce_failure(version, blob)(target.test(UNHURRIED))()
