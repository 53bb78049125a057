"""A separate disk for a region: a small tmpfs that can be filled and freed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BALLAST = "ballast"
CHUNK_BYTES = 1 << 16


class DiskError(Exception):
    """A small disk cannot be created here; the text says why."""


@contextmanager
def small_disk(folder: Path, size_kib: int) -> Iterator[None]:
    """Create the folder and mount a small disk on it."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        raise DiskError(f"cannot mount a small tmpfs: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fill the disk."""
    with open(folder / BALLAST, "ab", buffering=0) as ballast:
        try:
            while os.write(ballast.fileno(), bytes(CHUNK_BYTES)):
                pass
        except OSError:
            return


def wipe(folder: Path) -> None:
    """Delete everything on the disk."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def free(folder: Path) -> None:
    (folder / BALLAST).unlink(missing_ok=True)
