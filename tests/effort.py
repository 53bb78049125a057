"""How long the tests search. Each night (`scripts/test --oldest`, `--newest`) properties are tried with all of their
examples, of which a run for a change tries a part; the compiled core, which runs the same source, a smaller one.
"""

from __future__ import annotations

import os

from crdtstream.region import node

INTERPRETED = node.__file__.endswith(".py")
THOROUGH = bool(os.environ.get("THOROUGH"))


def examples(thorough: int) -> int:
    if THOROUGH:
        return thorough
    return max(20, thorough // (3 if INTERPRETED else 6))
