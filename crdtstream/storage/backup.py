"""A backup of one region: a checkpoint, and the log behind it up to one position, in a directory of its own.

    manifest, blocks-*, state-*    of the checkpoint, as in a data directory
    log-*                          the segments that a start reads, cut behind the position
    backup.json                    what this is, and size and SHA-256 of each file

The files are those of a data directory whose process ended at that position, so a restore is a copy. `backup.json` is
written last, and only after everything else is durable: a directory without it is torn, and is never restored. Its
`checksum` covers its other fields.

Files of checkpoints are never written again, so on one file system the backup links them instead of copying; segments
are copied, because the last one is still written to. A file that is restored is always a copy.

Invariant: the position was durable in the region before any segment was copied, so no record is missing or torn.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from crdtstream.core.entries.spilled import BlockFile
from crdtstream.protocols import codec
from crdtstream.protocols import manifest as manifests
from crdtstream.protocols.manifest import Manifest
from crdtstream.storage import sections, segment
from crdtstream.storage.checkpoint import BLOCKS_PREFIX, MANIFEST, STATE_PREFIX, files_of
from crdtstream.storage.disk import DiskError, DiskFailed, open_path
from crdtstream.storage.segment import is_segment

DESCRIPTION = "backup.json"
# The newest that is read. A backup of a region of one shard has the first, which every release reads.
VERSION = 2
VERSION_OF_ONE = 1
# What is said of a shard, where there are several.
OF_SHARDS = ("shard", "shards", "epoch")
CHUNK_BYTES = 1 << 20

Told = Callable[[int], None]


class BackupError(Exception):
    """The directory holds no whole backup, or cannot take one; the text says what to do."""


@dataclass(frozen=True)
class File:
    """A file of a backup; `name` has no directory."""

    name: str
    size_bytes: int
    sha256: str


@dataclass
class Description:
    """What `backup.json` says. `vector` is what the region had applied at `position`, by the names of origins. Of a
    region of several shards it is a backup of one, and `epoch` is that of their map.
    """

    region: int
    name: str
    cluster: str
    id_mode: str
    origin: str
    position: int
    vector: dict[str, int]
    digest: str
    taken_ms: int
    release: str
    formats: dict[str, int] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    shard: int = 0
    shards: int = 1
    epoch: int = 0

    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def fields(self) -> dict[str, Any]:
        found = asdict(self)
        return {name: value for name, value in found.items() if self.shards > 1 or name not in OF_SHARDS}


def formats() -> dict[str, int]:
    """The formats in which this release writes the files of a backup."""
    return {
        "segments": segment.FORMAT_VERSION,
        "records": codec.FORMAT_VERSION,
        "sections": sections.FORMAT_VERSION,
        "manifest": manifests.FORMAT_VERSION,
    }


# Taking one


class BackupFiles:
    """The files that a backup takes: whole ones of the checkpoint, and the segments, each up to an offset."""

    def __init__(self, manifest: Manifest, segments: list[tuple[str, int]]) -> None:
        self.whole = [MANIFEST, *sorted(files_of(manifest))]
        self.segments = segments


def make_target(path: str) -> list[str]:
    """Create the directory if it is absent; return the directories to sync. It must be empty."""
    directories = [path, os.path.dirname(os.path.abspath(path))]
    while not os.path.isdir(directories[-1]):
        directories.append(os.path.dirname(directories[-1]))
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        taken = os.listdir(path)
    except OSError as error:
        raise BackupError(f"cannot create the directory {path}: {error.strerror}; choose another one") from error
    if taken:
        torn = DESCRIPTION not in taken
        found = "what looks like a backup that was not finished" if torn else "a backup"
        raise BackupError(f"{path} is not empty, it holds {found}: choose another directory, or remove its files")
    return directories


def link_or_copy(data: str, target: str, name: str) -> File:
    """Link a file that is never written again, or copy it where that is impossible."""
    source, path = os.path.join(data, name), os.path.join(target, name)
    try:
        os.link(source, path)
    except OSError:
        return copy_file(source, path)
    return File(name, os.stat(path).st_size, hash_of(path))


def copy_file(source: str, path: str, size_bytes: int | None = None) -> File:
    """Copy the beginning of a file, all of it unless a size is given, and sync the copy."""
    digest, left = hashlib.sha256(), os.stat(source).st_size if size_bytes is None else size_bytes
    total = left
    with open(source, "rb") as old, open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        while left:
            data = old.read(min(left, CHUNK_BYTES))
            if not data:
                raise DiskFailed(f"{source} ends {left} bytes early")
            digest.update(data)
            new.write(data)
            left -= len(data)
        new.flush()
        os.fsync(new.fileno())
    return File(os.path.basename(path), total, digest.hexdigest())


def hash_of(path: str, told: Told | None = None) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(CHUNK_BYTES):
            digest.update(data)
            if told is not None:
                told(len(data))
    return digest.hexdigest()


def write_description(target: str, description: Description, directories: Iterable[str]) -> None:
    """The last step: from here on the directory is a backup."""
    sync_directories([target])
    temporary, path = os.path.join(target, f".{DESCRIPTION}"), os.path.join(target, DESCRIPTION)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text_of(description))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directories(directories)


def text_of(description: Description) -> str:
    version = VERSION if description.shards > 1 else VERSION_OF_ONE
    fields: dict[str, Any] = {"version": version, **description.fields()}
    return json.dumps({**fields, "checksum": checksum_of(fields)}, indent=2, ensure_ascii=False) + "\n"


def checksum_of(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def sync_directories(paths: Iterable[str]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_of_backup(name: str) -> bool:
    """True if a backup that is not finished may have a file of this name."""
    return name in (MANIFEST, f".{DESCRIPTION}") or is_segment(name) or name.startswith((BLOCKS_PREFIX, STATE_PREFIX))


def discard(target: str) -> None:
    """Remove the files of a backup that failed."""
    for name in os.listdir(target):
        os.unlink(os.path.join(target, name))


# Reading one


def read_description(directory: str) -> Description:
    path = os.path.join(directory, DESCRIPTION)
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
    except FileNotFoundError:
        raise BackupError(
            f"{directory} holds no whole backup: {DESCRIPTION}, which is written last, is missing; use another backup"
        ) from None
    except (OSError, ValueError) as error:
        raise BackupError(f"{path} cannot be read: {error}; use another backup") from error
    return checked(path, fields)


def checked(path: str, fields: Any) -> Description:
    if not isinstance(fields, dict) or type(fields.get("version")) is not int:
        raise BackupError(f"{path} describes no backup; use another one")
    if fields["version"] > VERSION:
        raise BackupError(
            f"{path} has version {fields['version']}, and this release reads version {VERSION}: use the release that"
            " wrote it, or a newer one"
        )
    checksum = fields.pop("checksum", None)
    if checksum != checksum_of(fields):
        raise BackupError(f"{path} is damaged: its checksum is wrong; use another backup")
    del fields["version"]
    fields["files"] = [File(**file) for file in fields["files"]]
    for file in fields["files"]:
        if not file.name or os.path.basename(file.name) != file.name or file.name.startswith("."):
            raise BackupError(f"{path} names a file outside its directory: {file.name!r}; use another backup")
    return Description(**fields)


def check_files(directory: str, description: Description, told: Told | None = None) -> None:
    """Compare every file with its size and hash; `told` is called with the bytes read."""
    for file in description.files:
        path = os.path.join(directory, file.name)
        try:
            size = os.stat(path).st_size
            sound = size == file.size_bytes and hash_of(path, told) == file.sha256
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror}; use another backup") from error
        if size != file.size_bytes:
            raise BackupError(f"{path} has {size} bytes, not {file.size_bytes}; use another backup")
        if not sound:
            raise BackupError(f"{path} is damaged: its SHA-256 is another one; use another backup")


class Frozen:
    """The disk of a backup: nothing can be changed on it, and nothing has to be."""

    __slots__ = ("_directory", "_sizes")

    def __init__(self, directory: str, description: Description) -> None:
        self._directory = directory
        self._sizes = {file.name: file.size_bytes for file in description.files}

    def names(self) -> list[str]:
        return sorted(self._sizes)

    def free_bytes(self) -> int:
        return 0

    def volume_bytes(self) -> int:
        return 0

    def size(self, name: str) -> int:
        try:
            return self._sizes[name]
        except KeyError:
            raise DiskFailed(errno.ENOENT, f"{name} is not among the files of {self._directory}") from None

    def read(self, name: str, offset: int, length: int) -> bytes:
        path = os.path.join(self._directory, name)
        try:
            with open(path, "rb") as file:
                return os.pread(file.fileno(), length, offset)
        except OSError as error:
            raise DiskFailed(error.errno, f"cannot read {path}: {error.strerror}") from error

    def open_file(self, name: str) -> BlockFile:
        return open_path(os.path.join(self._directory, name))

    def sync(self, name: str) -> None:
        """Nothing was written."""

    def sync_directory(self) -> None:
        """Nothing was written."""

    def release(self, name: str) -> None:
        """No descriptor is kept."""

    def create(self, name: str, size_bytes: int) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def allocate(self, name: str, size_bytes: int) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def write(self, name: str, offset: int, data: bytes) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def write_parts(self, name: str, offset: int, parts: list[bytes]) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def truncate(self, name: str, size_bytes: int) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def replace(self, name: str, data: bytes) -> None:  # noqa: ARG002 - of the Disk protocol
        raise self._refusal(name)

    def delete(self, name: str) -> None:
        raise self._refusal(name)

    def _refusal(self, name: str) -> DiskError:
        return DiskFailed(f"{os.path.join(self._directory, name)} is not as a whole backup has it: it needs a repair")


# Restoring one


def restore_files(directory: str, description: Description, data: str, told: Told | None = None) -> None:
    """Copy the files into an empty data directory. They get their names at the end, older segments after newer ones and
    the manifest last: so a start in between finds nothing, is refused, or finds all.
    """
    try:
        os.makedirs(data, mode=0o700, exist_ok=True)
        if os.listdir(data):
            raise BackupError(f"{data} is not empty: give a directory that is empty or absent")
        for file in description.files:
            copied = copy_file(os.path.join(directory, file.name), temporary_of(data, file.name))
            if copied.sha256 != file.sha256:
                raise BackupError(f"{file.name} of {directory} is damaged: its SHA-256 is another one")
            if told is not None:
                told(file.size_bytes)
        names = [file.name for file in description.files]
        for name in sorted(names, key=lambda name: (name != MANIFEST, name), reverse=True):
            os.rename(temporary_of(data, name), os.path.join(data, name))
        sync_directories([data, os.path.dirname(os.path.abspath(data))])
    except OSError as error:
        raise BackupError(f"cannot restore to {data}: {error.strerror or error}") from error


def temporary_of(data: str, name: str) -> str:
    """As `RealDisk` names files that are not there yet, and removes them at a start."""
    return os.path.join(data, f".new-{name}")
