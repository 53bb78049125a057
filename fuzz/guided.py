"""A search guided by coverage: libFuzzer, by way of atheris, in a process of its own, because it ends the process.

    python -m fuzz.guided TARGET [option of libFuzzer...] [directory of inputs]

What atheris is to see must be imported under its eyes; so targets are imported late.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random

from fuzz.target import UNHURRIED

MISSING = "" if find_spec("atheris") else "atheris is not installed: pip install 'atheris>=3,<4'"
INPUT_BYTES_MAX = 20_000
INPUTS = 20
MODULES = {"requests": "fuzz.parsing", "commands": "fuzz.commanding"}
# Whose code counts as new; the less there is, the sooner a search begins.
SEEN = {
    "requests": ["crdtstream.protocols.requests"],
    "commands": ["crdtstream.connections", "crdtstream.commands", "crdtstream.core", "crdtstream.protocols"],
}


def search(name: str, seed: int, seconds: float, store: Path) -> None:
    """Run libFuzzer; raises CalledProcessError if it found something, which is then in the store."""
    with tempfile.TemporaryDirectory() as inputs:
        options = [f"-seed={seed}", f"-max_total_time={max(1, round(seconds))}", f"-max_len={INPUT_BYTES_MAX}"]
        place = f"-artifact_prefix={store / f'fuzz-{name}-'}"
        command = [sys.executable, "-m", "fuzz.guided", name, *options, place, "-print_final_stats=1", inputs]
        subprocess.run(command, check=True)


def main() -> None:
    """libFuzzer takes over, and does not return."""
    import atheris

    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=SEEN[name]):
        target = import_module(MODULES[name]).TARGET
    # An input that ends too early is none at all, and libFuzzer begins with what it is given.
    random = Random(name)
    for number in range(INPUTS):
        Path(sys.argv[-1], f"seed-{number}").write_bytes(random.randbytes(INPUT_BYTES_MAX))
    atheris.Setup(sys.argv, target.test(UNHURRIED).hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
