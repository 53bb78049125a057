"""Which build this is: the commit that it was made from, and the commit's date.

`setup.py` writes both into a wheel and a source distribution, as the file BUILD of the package. A checkout has no such
file and asks git, when first asked. Where neither knows, both are "unknown".
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

FILE = "BUILD"
UNKNOWN = ("unknown", "unknown")
PACKAGE = Path(__file__).resolve().parents[1]
# With `-dirty` behind it where files differ from the commit.
COMMIT = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
DATE = ("log", "-1", "--format=%cs")


@cache
def build() -> tuple[str, str]:
    """The commit and its date."""
    written = read(PACKAGE)
    return of_checkout(PACKAGE.parent) if written == UNKNOWN else written


def read(package: Path) -> tuple[str, str]:
    """What was written into a package when it was built."""
    try:
        commit, date = (package / FILE).read_text().split()
    except FileNotFoundError:
        return UNKNOWN
    return commit, date


def of_checkout(root: Path) -> tuple[str, str]:
    """What git says, which looks in `root` only: a package inside another repository is no part of that."""
    if not (root / ".git").exists():
        return UNKNOWN
    try:
        return ask_git(root, COMMIT), ask_git(root, DATE)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


def ask_git(root: Path, question: tuple[str, ...]) -> str:
    """Ask git even if another user owns the files, as in a container that builds them."""
    return subprocess.run(
        ["git", "-C", str(root), "-c", "safe.directory=*", *question],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    ).stdout.strip()
