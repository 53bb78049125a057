"""Entry point of `python -m crdtstream`, the same as the console script `crdtstream`."""

from __future__ import annotations

from crdtstream.cli import main

if __name__ == "__main__":
    main()
