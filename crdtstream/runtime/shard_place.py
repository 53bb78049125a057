"""Where the directory of a shard is at home: the file `place` in it, so that no two processes serve one shard.

It is written when the region is founded, and has the address at which clients reach the shard. A shard that moves ends
with it: once its log has the mark of a clean stop, the file names the new address, and the last position of the log. So
a start needs no knowledge of other machines:

    the file names this address      it starts, also after a crash; if it was handed over, the log must end there
    it names another one             it starts if it was not handed over, its log ends with the mark of a clean stop,
                                     and it is no copy, of which the original could be started, too: the address of the
                                     machine has changed, or the volume was attached to another one
    it names no address              it starts: it was restored from a backup
    there is no file                 it does not start: an empty directory would be a shard without its data

With `replace` it starts in any case. A process that may not start ends with an exit code of its own, because that is no
fault of the settings: the supervisor tries again, and the directory may be brought meanwhile.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from crdtstream.runtime.shard_map_file import ShardMapFile
from crdtstream.settings.config import Config, ConfigError
from crdtstream.storage.disk import DiskFailed, RealDisk

# The exit code of a process whose directory is refused.
DIRECTORY_REFUSED = 3
PLACE = "place"
ANYWHERE = "anywhere"
COPY = "copy"
BYTES_MAX = 1024
LOSES = (
    "with --replace it starts all the same: what was acknowledged elsewhere and is not in this directory is lost unless"
    " other regions have it, and groups may deliver entries twice"
)


class DirectoryRefused(ConfigError):
    """The shard is to run here, and its directory is not the one to start with; the text says what to bring."""


@dataclass(frozen=True)
class DirectoryPlace:
    """The address; `position` is where the log ended when the directory was handed over to it, 0 if it was not. A copy
    is not the directory in which this was recorded.
    """

    address: str
    position: int = 0
    is_copy: bool = False


def record_place(disk: RealDisk, place: DirectoryPlace) -> None:
    identity = COPY if place.is_copy else disk.identity()
    disk.replace(PLACE, f"{place.address} {place.position} {identity}\n".encode())


def read_place(disk: RealDisk) -> DirectoryPlace | None:
    if PLACE not in disk.names():
        return None
    text = disk.read(PLACE, 0, BYTES_MAX).decode("utf-8", "replace")
    match text.split():
        case [address, position, identity] if position.isdecimal() and position.isascii():
            return DirectoryPlace(address, int(position), identity != disk.identity())
        case _:
            raise DiskFailed(errno.EIO, f"the file {PLACE} of this shard cannot be read: copy the directory again")


def is_at_home(directory: Path, address: str) -> bool:
    """Return whether a shard that is reached there ran in it last, and has not handed it over: also while a process has
    it locked.
    """
    try:
        text = (directory / PLACE).read_text("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return False
    return text.split()[:2] == [address, "0"]


def open_directory(config: Config) -> RealDisk:
    """The directory of a shard, which has to be there; a region of one shard makes its own. Raises ConfigError."""
    if config.shards > 1 and not config.replace and not os.path.isdir(config.data):
        shards = ShardMapFile(config)
        raise missing(config) if shards.is_here else moved(config, shards.place.address)
    return RealDisk(config.data)


def moved(config: Config, address: str) -> ConfigError:
    return ConfigError(f"shard {config.shard} has moved to {address}: nothing is left to do here")


def stays(config: Config, what: str, address: str) -> ConfigError:
    return ConfigError(
        f"shard {config.shard} is not handed over to {address}, because {config.data} {what}: remove it if the shard"
        f" has all data at {address}; otherwise have the shard run here again, then move it"
    )


def missing(config: Config) -> DirectoryRefused:
    return DirectoryRefused(
        f"the directory {config.data} of shard {config.shard} is missing, or is not that of a shard: bring it here from"
        " where the shard ran; with --replace the shard starts in any case, and takes from other regions what they have"
    )


class Claim:
    """The right of this process to its directory, by the map that it starts with."""

    def __init__(self, config: Config, disk: RealDisk, shards: ShardMapFile) -> None:
        self._config = config
        self._disk = disk
        self._address = shards.place.address
        self._is_here = shards.is_here
        self._place = read_place(disk)

    def require_place(self) -> None:
        """Before anything is read: raise ConfigError if the directory was handed over to another place."""
        place = self._place
        if not self._is_here:
            if place is None or place.position:
                raise moved(self._config, self._address)
            if place.is_copy:
                raise stays(self._config, "is a copy that has not served since it was made", self._address)
        elif not self._config.replace:
            if place is None:
                raise missing(self._config)
            if place.address not in (self._address, ANYWHERE):
                self._require_original(place)

    def _require_original(self, place: DirectoryPlace) -> None:
        shard, data = self._config.shard, self._config.data
        if place.position:
            raise DirectoryRefused(
                f"shard {shard} was handed over to {place.address}, and this machine has it at {self._address}: if that"
                " is this machine, give it as --announce-host; otherwise bring back what that machine has, because"
                f" {data} is what the shard left; {LOSES}"
            )
        if place.is_copy:
            raise DirectoryRefused(
                f"shard {shard} ran at {place.address}, and {data} is a copy that was not handed over to"
                f" {self._address}: the directory that was copied could be started, too. Start the shard there again"
                f" and move it; if that machine is lost, keep the other directory until this shard serves; {LOSES}"
            )

    def confirm(self, last_position: int, stopped: bool) -> None:
        """Once the log was read, which ends there, with the mark of a clean stop or without: raise ConfigError if the
        directory may lack something; else it is at home here.
        """
        if self._place is not None and not self._config.replace and self._is_here:
            self._require_end(self._place, last_position, stopped)
        if self._is_here:
            self.follow(self._address)

    def _require_end(self, place: DirectoryPlace, last_position: int, stopped: bool) -> None:
        if place.address not in (self._address, ANYWHERE) and not stopped:
            raise DirectoryRefused(
                f"shard {self._config.shard} ran at {place.address} and was not stopped there, so"
                f" {self._config.data} may be a snapshot that lacks something: start it there again and move it, or"
                f" stop it there before its volume is attached here; {LOSES}"
            )
        if place.position not in (0, last_position):
            raise DirectoryRefused(
                f"the log in {self._config.data} ends at record {last_position}, and shard {self._config.shard} was"
                f" handed over at record {place.position}: wait for the copy to end, or copy it again; {LOSES}"
            )

    def follow(self, address: str) -> None:
        """The shard is reached at this address, and runs here."""
        self._record(DirectoryPlace(address))

    def hand_over(self, address: str, position: int) -> None:
        """The log has ended there, with the mark of a clean stop; only a process at this address may go on."""
        self._record(DirectoryPlace(address, position))

    def _record(self, place: DirectoryPlace) -> None:
        if place != self._place:
            record_place(self._disk, place)
            self._place = place
