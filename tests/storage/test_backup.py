"""The files of a backup: what is linked, what is copied, and what is refused when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.storage import backup as backup_module
from crdtstream.storage.backup import (
    DESCRIPTION,
    OF_SHARDS,
    VERSION,
    BackupError,
    Description,
    File,
    Frozen,
    check_files,
    checksum_of,
    copy_file,
    discard,
    link_or_copy,
    make_target,
    read_description,
    restore_files,
    text_of,
    write_description,
)
from crdtstream.storage.disk import Disk, DiskFailed


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Something like a data directory."""
    made = tmp_path / "data"
    made.mkdir()
    for name in ("manifest", "state-00000001", "log-00000000000000000001", "log-00000000000000000009"):
        (made / name).write_bytes(name.encode() * 100_000)
    return made


def taken(data: Path, target: Path) -> Description:
    directories = make_target(str(target))
    logs = ("log-00000000000000000001", "log-00000000000000000009")
    files = [link_or_copy(str(data), str(target), name) for name in ("manifest", "state-00000001")]
    files += [copy_file(str(data / name), str(target / name), 1000) for name in logs]
    description = Description(1, "east", "shop", "strict", "1.a", 5, {"1.a": 3}, "d1", 7, "0.1.0", {}, files)
    write_description(str(target), description, directories)
    return description


def test_a_region_of_one_shard_has_what_releases_before_shards_read(data: Path, tmp_path: Path) -> None:
    description = taken(data, tmp_path / "one")
    fields = json.loads(text_of(description))
    assert fields["version"] == 1 and fields.keys().isdisjoint(OF_SHARDS)
    of_three = replace(description, shard=1, shards=3, epoch=2)
    fields = json.loads(text_of(of_three))
    assert fields["version"] == VERSION and [fields[name] for name in OF_SHARDS] == [1, 3, 2]
    (tmp_path / "one" / DESCRIPTION).write_text(text_of(of_three))
    assert read_description(str(tmp_path / "one")) == of_three


def test_new_directories_are_synced_up_to_one_that_was_there(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "one" / "two"
    assert make_target(str(two)) == [str(two), str(one), str(tmp_path)]
    assert make_target(str(two)) == [str(two), str(one)]


def test_what_was_written_is_read(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    description = taken(data, target)
    assert read_description(str(target)) == description
    check_files(str(target), description)
    assert description.size_bytes() == sum(path.stat().st_size for path in target.glob("[!b]*"))
    assert (target / "state-00000001").stat().st_ino == (data / "state-00000001").stat().st_ino
    assert (target / "log-00000000000000000001").stat().st_size == 1000


def test_where_links_are_impossible_files_are_copied(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_source: str, _path: str) -> None:
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "target"
    check_files(str(target), taken(data, target))
    assert (target / "manifest").stat().st_ino != (data / "manifest").stat().st_ino


def test_a_file_that_is_too_short_is_an_error(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match="ends 1 bytes early"):
        copy_file(str(data / "manifest"), str(tmp_path / "x"), 800_001)


def test_a_restore_copies_and_the_manifest_is_last(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description = taken(data, tmp_path / "target")
    named: list[str] = []
    rename = os.rename

    def noted(source: str, path: str) -> None:
        named.append(os.path.basename(path))
        rename(source, path)

    monkeypatch.setattr(os, "rename", noted)
    restored = tmp_path / "restored"
    restore_files(str(tmp_path / "target"), description, str(restored))
    check_files(str(restored), description)
    assert named[-1] == "manifest" and named.index("log-00000000000000000009") < named.index("log-00000000000000000001")
    assert not (restored / DESCRIPTION).exists()
    assert (restored / "manifest").stat().st_ino != (data / "manifest").stat().st_ino
    with pytest.raises(BackupError, match="not empty"):
        restore_files(str(tmp_path / "target"), description, str(restored))


def test_what_is_damaged_is_refused(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    description = taken(data, target)
    state = target / "state-00000001"
    state.unlink()
    with pytest.raises(BackupError, match=r"state-00000001 cannot be read"):
        check_files(str(target), description)
    state.write_bytes(b"short")
    with pytest.raises(BackupError, match="has 5 bytes, not 1400000"):
        check_files(str(target), description)
    state.write_bytes(b"x" * 1_400_000)
    with pytest.raises(BackupError, match="its SHA-256 is another one"):
        check_files(str(target), description)
    with pytest.raises(BackupError, match="its SHA-256 is another one"):
        restore_files(str(target), description, str(tmp_path / "restored"))


def test_descriptions_that_are_none(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    description = taken(data, target)
    path = target / DESCRIPTION
    fields = json.loads(path.read_text())
    for text, reason in (
        ("{", "cannot be read"),
        ("[]", "describes no backup"),
        (json.dumps({**fields, "version": VERSION + 1}), "use the release that wrote it"),
        (json.dumps({**fields, "position": 6}), "its checksum is wrong"),
    ):
        path.write_text(text)
        with pytest.raises(BackupError, match=reason):
            read_description(str(target))
    description.files = [File("../data/manifest", 1, "")]
    path.write_text(text_of(description))
    with pytest.raises(BackupError, match="names a file outside its directory"):
        read_description(str(target))
    assert checksum_of({"a": 1}) != checksum_of({"a": 2})


def test_a_directory_that_is_not_empty_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BackupError, match="a backup that was not finished"):
        make_target(str(tmp_path))
    discard(str(tmp_path))
    make_target(str(tmp_path))
    with pytest.raises(BackupError, match="cannot create the directory"):
        make_target("/proc/none")


def test_a_frozen_disk_changes_nothing(data: Path, tmp_path: Path) -> None:
    description = taken(data, tmp_path / "target")
    disk: Disk = Frozen(str(tmp_path / "target"), description)
    assert disk.names() == sorted(file.name for file in description.files)
    assert disk.read("manifest", 0, 8) == b"manifest" and disk.size("log-00000000000000000001") == 1000
    disk.sync("manifest")
    disk.sync_directory()
    disk.release("manifest")
    changes: tuple[Callable[[], None], ...] = (
        lambda: disk.create("a", 1),
        lambda: disk.allocate("manifest", 1),
        lambda: disk.write("manifest", 0, b"x"),
        lambda: disk.write_parts("manifest", 0, [b"x"]),
        lambda: disk.truncate("manifest", 0),
        lambda: disk.replace("manifest", b"x"),
        lambda: disk.delete("manifest"),
    )
    for change in changes:
        with pytest.raises(DiskFailed, match="it needs a repair"):
            change()
    with pytest.raises(DiskFailed, match="other is not among the files of"):
        disk.size("other")
    (tmp_path / "target" / "manifest").unlink()
    with pytest.raises(DiskFailed, match="cannot read"):
        disk.read("manifest", 0, 1)
    assert backup_module.formats()["records"] >= 3
