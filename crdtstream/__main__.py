"""The entry point: `python -m crdtstream`, and the console script `crdtstream`."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line. Garbage collection is off while it is imported, and ignores afterwards what that made."""
    # None of it is garbage, and a start spends a tenth of a second on visiting it.
    gc.disable()
    from crdtstream.cli.app import main as run

    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    main()
