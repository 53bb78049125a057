"""Where the directory of a shard is at home: the file `place` in it, so that no two processes serve one shard.

It is written when the region is founded, and has the address at which clients reach the shard. A shard that moves ends
with it: once its log has the mark of a clean stop, the file names the new address, and the last position of the log. So
a start needs no knowledge of other machines:

    the file names this address      it starts, also after a crash; if it was handed over, the log must end there
    it names another one             it starts if the log ends with the mark of a clean stop, and was not handed over
    it names no address              it starts: it was restored from a backup
    there is no file                 it does not start: an empty directory would be a shard without its data

With `replace` it starts in any case. A process that may not start ends with an exit code of its own, because that is no
fault of the settings: the supervisor tries again, and the directory may be brought meanwhile.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from crdtstream.runtime.shard_map_file import ShardMapFile
from crdtstream.settings.config import Config, ConfigError
from crdtstream.storage.disk import Disk, DiskFailed, RealDisk

# The exit code of a process whose directory is refused.
DIRECTORY_REFUSED = 3
PLACE = "place"
ANYWHERE = "anywhere"
BYTES_MAX = 1024
LOSES = (
    "with --replace it starts all the same: what was acknowledged elsewhere and is not in this directory is lost unless"
    " other regions have it, and groups may deliver entries twice"
)


class DirectoryRefused(ConfigError):
    """The shard is to run here, and its directory is not the one to start with; the text says what to bring."""


@dataclass(frozen=True)
class DirectoryPlace:
    """The address; `position` is where the log ended when the directory was handed over to it, 0 if it was not."""

    address: str
    position: int = 0


def record_place(disk: Disk, place: DirectoryPlace) -> None:
    disk.replace(PLACE, f"{place.address} {place.position}\n".encode())


def read_place(disk: Disk) -> DirectoryPlace | None:
    if PLACE not in disk.names():
        return None
    text = disk.read(PLACE, 0, BYTES_MAX).decode("utf-8", "replace")
    address, _, position = text.strip().rpartition(" ")
    if not (address and position.isdecimal() and position.isascii()):
        raise DiskFailed(errno.EIO, f"the file {PLACE} of this shard cannot be read: copy the directory again")
    return DirectoryPlace(address, int(position))


def open_directory(config: Config) -> RealDisk:
    """The directory of a shard, which has to be there; a region of one shard makes its own. Raises ConfigError."""
    if config.shards > 1 and not config.replace and not os.path.isdir(config.data):
        shards = ShardMapFile(config)
        raise missing(config) if shards.is_here else moved(config, shards.place.address)
    return RealDisk(config.data)


def moved(config: Config, address: str) -> ConfigError:
    return ConfigError(f"shard {config.shard} has moved to {address}: nothing is left to do here")


def missing(config: Config) -> DirectoryRefused:
    return DirectoryRefused(
        f"the directory {config.data} of shard {config.shard} is missing, or is not that of a shard: bring it here from"
        " where the shard ran; with --replace the shard starts in any case, and takes from other regions what they have"
    )


class Claim:
    """The right of this process to its directory, by the map that it starts with."""

    def __init__(self, config: Config, disk: Disk, shards: ShardMapFile) -> None:
        self._config = config
        self._disk = disk
        self._address = shards.place.address
        self._is_here = shards.is_here
        self._place = read_place(disk)

    def require_place(self) -> None:
        """Before anything is read: raise ConfigError if the directory was handed over to another place."""
        place, shard = self._place, self._config.shard
        if not self._is_here:
            if place is None or place.position:
                raise moved(self._config, self._address)
        elif not self._config.replace:
            if place is None:
                raise missing(self._config)
            if place.position and place.address != self._address:
                raise DirectoryRefused(
                    f"shard {shard} was handed over to {place.address}, and this machine has it at {self._address}: if"
                    " that is this machine, give it as --announce-host; otherwise bring back what that machine has,"
                    f" because {self._config.data} is what the shard left; {LOSES}"
                )

    def confirm(self, last_position: int, stopped: bool) -> None:
        """Once the log was read, which ends there, with the mark of a clean stop or without: raise ConfigError if the
        directory is a copy that may lack something; else it is at home here.
        """
        if self._place is not None and not self._config.replace and self._is_here:
            self._require_end(self._place, last_position, stopped)
        if self._is_here:
            self.follow(self._address)

    def _require_end(self, place: DirectoryPlace, last_position: int, stopped: bool) -> None:
        if place.address not in (self._address, ANYWHERE) and not stopped:
            raise DirectoryRefused(
                f"shard {self._config.shard} ran at {place.address} and was not stopped there when {self._config.data}"
                f" was copied: start it there again and move it, or copy it after a stop; {LOSES}"
            )
        if place.position not in (0, last_position):
            raise DirectoryRefused(
                f"the log in {self._config.data} ends at record {last_position}, and shard {self._config.shard} was"
                f" handed over at record {place.position}: wait for the copy to end, or copy it again; {LOSES}"
            )

    def follow(self, address: str) -> None:
        """The shard is reached at this address, and runs here."""
        if self._place != DirectoryPlace(address):
            self._place = DirectoryPlace(address)
            record_place(self._disk, self._place)

    def hand_over(self, address: str, position: int) -> None:
        """The log has ended there, with the mark of a clean stop; only a process at this address may go on."""
        self._place = DirectoryPlace(address, position)
        record_place(self._disk, self._place)
