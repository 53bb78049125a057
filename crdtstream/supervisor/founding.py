"""How many shards a region has, for as long as its cluster lives, and where they are reached: `shards.json`.

The number is written before the first shard starts. A directory that was founded with another number, or by a region of
one shard, is refused: keys lie in the shard of their hash slot, so another number takes a new cluster, and an import.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from crdtstream.runtime.shard_map_file import PUT_BACK, RegionShards, ShardPlace, decoded, encoded
from crdtstream.runtime.shard_place import ANYWHERE, PLACE, DirectoryPlace, is_at_home, read_place, record_place
from crdtstream.runtime.tls.credentials import join_address
from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.sharding import (
    SHARDS_FILE,
    directory_of,
    elsewhere,
    here,
    numbers_in,
    own_host,
    port_of,
    replication_host,
)
from crdtstream.storage.checkpoint import MANIFEST
from crdtstream.storage.disk import Disk, DiskError, RealDisk
from crdtstream.storage.segment import is_segment

ANOTHER = "another number takes a new cluster in another --data, and crdtstream import"


def places_of(config: Config) -> tuple[ShardPlace, ...]:
    """Where each shard is reached, as the settings say."""
    told = elsewhere(config)
    return tuple(
        place_elsewhere(config, number, *told[number]) if number in told else place_here(config, number)
        for number in range(config.shards)
    )


def place_here(config: Config, number: int) -> ShardPlace:
    host = replication_host(config)
    replication = join_address(host, config.replication_port + number) if host else ""
    return ShardPlace(own_host(config), port_of(config.port, number), port_of(config.tls_port, number), replication)


def place_elsewhere(config: Config, number: int, host: str, port: int) -> ShardPlace:
    """A shard of another machine, whose settings are the same: only its host and its Redis port are told."""
    first = port if config.port else 0
    tls_first = config.tls_port if config.port else port
    replication = join_address(host, config.replication_port + number)
    return ShardPlace(host, port_of(first, number), port_of(tls_first if config.tls_port else 0, number), replication)


def found_or_follow(config: Config, disk: Disk) -> tuple[RegionShards, bool]:
    """The map that these settings make, on the disk; true if it had to be written, because it is new or differs. Raises
    ConfigError for a directory of something else, and DiskError.
    """
    path = Path(config.data) / SHARDS_FILE
    present = read_present(disk, str(path)) if SHARDS_FILE in disk.names() else None
    refuse_unfit(config, present, disk.names())
    epoch = 0 if present is None else present.epoch
    shards = RegionShards(config.cluster, config.region, epoch, places_of(config), tuple(here(config)))
    if shards == present:
        return shards, False
    if present is None:
        make_directories(config, shards)
    elif present.is_restored:
        send_others_away(config, shards, disk.names())
    shards = replace(shards, epoch=epoch + 1)
    disk.replace(SHARDS_FILE, encoded(shards))
    return shards, True


def make_directories(config: Config, shards: RegionShards) -> None:
    """A shard starts only in a directory that is at home where it runs (runtime/shard_place.py): here they begin."""
    for number in shards.here:
        with closing(RealDisk(f"{config.data}/{directory_of(number)}")) as disk:
            record_place(disk, DirectoryPlace(shards.places[number].address))


def not_handed_over(config: Config, names: list[str]) -> list[int]:
    """The shards that are to run elsewhere, and whose directory is here as if they ran here: the supervisor was not
    there to have them move.
    """
    away = set(numbers_in(names)).difference(here(config))
    directories = {number: Path(config.data) / directory_of(number) for number in away}
    return sorted(number for number in away if is_at_home(directories[number], place_here(config, number).address))


def send_others_away(config: Config, shards: RegionShards, names: list[str]) -> None:
    """A restored directory starts anywhere. One of a shard that runs elsewhere would start when the shard moves here,
    long after the backup: it becomes a copy of what runs there.
    """
    for number in set(numbers_in(names)).difference(shards.here):
        with closing(RealDisk(f"{config.data}/{directory_of(number)}")) as disk:
            place = read_place(disk)
            if place is not None and place.address == ANYWHERE:
                record_place(disk, DirectoryPlace(shards.places[number].address, is_copy=True))


def read_present(disk: Disk, path: str) -> RegionShards:
    return decoded(disk.read(SHARDS_FILE, 0, disk.size(SHARDS_FILE)), path)


def refuse_unfit(config: Config, present: RegionShards | None, names: list[str]) -> None:
    """A directory without the file must have neither a region of one shard in it, nor shards."""
    if present is not None:
        refuse_others(config, present)
        refuse_same_address(config, present)
    elif MANIFEST in names or any(is_segment(name) for name in names):
        raise ConfigError(
            f"the data directory {config.data} holds a region of one shard: start it without --shards; {ANOTHER}"
        )
    elif any(was_used(Path(config.data) / directory_of(number)) for number in numbers_in(names)):
        raise ConfigError(
            f"the data directory {config.data} holds shards, and no {SHARDS_FILE}: if a restore did not end, remove the"
            f" directory and restore again; otherwise {PUT_BACK}"
        )


def was_used(directory: Path) -> bool:
    """True unless a founding that was interrupted is all that was there."""
    return any(not name.startswith(".") and name != PLACE for name in os.listdir(directory))


def refuse_others(config: Config, present: RegionShards) -> None:
    count = len(present.places)
    if count != config.shards:
        raise ConfigError(
            f"the data directory {config.data} was founded with --shards {count}, not {config.shards}: give --shards"
            f" {count}; {ANOTHER}"
        )
    if (present.cluster, present.region) != (config.cluster, config.region):
        raise ConfigError(
            f"the data directory {config.data} belongs to region {present.region} of cluster {present.cluster!r}, not"
            f" to region {config.region} of {config.cluster!r}: choose another --data"
        )


def refuse_same_address(config: Config, present: RegionShards) -> None:
    """A directory is at home at an address, so what a shard leaves behind when it moves must not be so any more."""
    places = places_of(config)
    for number in sorted(set(present.here).difference(here(config))):
        if places[number].address == present.places[number].address:
            raise ConfigError(
                f"shard {number} would move to {places[number].address}, where it is now: give the new machine an"
                " address of its own, or two of them could serve the shard"
            )


def read_here(config: Config) -> RegionShards | None:
    """The file of a region that may be at work, None if there is none; raises ConfigError and DiskError."""
    path = Path(config.data) / SHARDS_FILE
    # What is wrong with the directory itself is found by the start.
    if not os.path.exists(path):
        return None
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        if isinstance(error, DiskError):
            raise
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def refuse_shards(config: Config) -> None:
    """A region of one shard does not begin in the directory of a region of several. Raises ConfigError, DiskError."""
    present = read_here(config) if config.shards == 1 else None
    if present is not None:
        refuse_others(config, present)


def founding_problems(config: Config) -> list[str]:
    """What `serve --check` says of the directory of a region of several shards."""
    path = Path(config.data)
    try:
        refuse_unfit(config, read_here(config), os.listdir(path) if path.is_dir() else [])
    except (ConfigError, DiskError) as error:
        return [str(error)]
    return []
