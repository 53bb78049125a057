"""Which build runs: what setup.py wrote into a wheel or a source distribution, or what git says of a checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from crdtstream.runtime.build import FILE, UNKNOWN, of_checkout, read

AUTHOR = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
DATE = {"GIT_COMMITTER_DATE": "2026-11-26T12:00:00Z"}


def git(root: Path, *arguments: str) -> str:
    environment = {**os.environ, **AUTHOR, **DATE}
    return subprocess.run(
        ["git", *arguments], cwd=root, env=environment, check=True, capture_output=True, text=True
    ).stdout


def checkout(root: Path) -> str:
    """A repository with one commit and a tag; returns the commit."""
    (root / "code").write_text("before")
    for arguments in ("init -q", "add code", "commit -q -m code", "tag v1"):
        git(root, *arguments.split())
    return git(root, "rev-parse", "HEAD")[:12]


def test_a_checkout_is_named_by_its_commit(tmp_path: Path) -> None:
    commit = checkout(tmp_path)
    assert of_checkout(tmp_path) == (commit, "2026-11-26")
    (tmp_path / "code").write_text("after")
    assert of_checkout(tmp_path) == (f"{commit}-dirty", "2026-11-26")


def test_a_folder_of_another_repository_is_not_named_by_that(tmp_path: Path) -> None:
    checkout(tmp_path)
    (tmp_path / "inside").mkdir()
    assert of_checkout(tmp_path / "inside") == UNKNOWN


def test_a_repository_that_git_cannot_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert of_checkout(tmp_path) == UNKNOWN


def test_a_package_is_named_by_what_was_written(tmp_path: Path) -> None:
    assert read(tmp_path) == UNKNOWN
    (tmp_path / FILE).write_text("53236e983a8e 2026-11-26\n")
    assert read(tmp_path) == ("53236e983a8e", "2026-11-26")
