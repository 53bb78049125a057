"""The settings of one shard: those of its region, with a directory and ports of its own.

Shards are numbered from 0. Shard k has the directory `shard-NNN` below that of the region, and each port is that of the
region plus k: shard 0 has the ports that the settings name, so the settings of a region are the same on all machines
but for `shard`, which says which of the shards run there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from crdtstream.settings.config import (
    NO_HOST,
    WILDCARDS,
    Config,
    ConfigError,
    Listener,
    is_loopback,
    listeners_of,
    split_address,
)

SHARDS_MAX = 1000
# For a machine that shards move to later, or have moved from.
NONE = "none"
PORT_MAX = 65535
# The file that says which shards there are, and where; beside their directories.
SHARDS_FILE = "shards.json"
OF_SHARD = "shard-"
DIRECTORY = re.compile(rf"{OF_SHARD}[0-9]{{3}}")
RANGES = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?([ ,]+[0-9]{1,4}(-[0-9]{1,4})?)*")


def directory_of(number: int) -> str:
    """The directory of a shard, below that of its region."""
    return f"{OF_SHARD}{number:03d}"


def numbers_in(names: list[str]) -> list[int]:
    """The shards that have a directory among these names, ascending."""
    return sorted(int(name.removeprefix(OF_SHARD)) for name in names if DIRECTORY.fullmatch(name))


def number_of(config: Config) -> int:
    """The number of the shard whose settings these are; 0 in a region of one."""
    return int(config.shard) if config.shards > 1 else 0


def replaced(config: Config) -> list[int]:
    """The shards here that take over: all, or those that `replace` names; raises ConfigError."""
    if isinstance(config.replace, str):
        named = numbers_of(config.replace, config.shards, "replace")
        return [number for number in here(config) if number in named]
    return here(config) if config.replace else []


def of_shard(config: Config, number: int) -> Config:
    """The settings of this shard. Peers stay addresses of their shards 0; a port that is any free one stays so. All
    shards may write backups below the same directory, because a backup of the region is one directory.
    """
    return replace(
        config,
        shard=str(number),
        replace=number in replaced(config),
        data=f"{config.data}/{directory_of(number)}",
        port=port_of(config.port, number),
        tls_port=port_of(config.tls_port, number),
        replication_port=port_of(config.replication_port, number),
        bulk_port=None if config.bulk_port is None else port_of(config.bulk_port, number),
        http_port=None if config.http_port is None else port_of(config.http_port, number),
    )


def port_of(base: int, number: int) -> int:
    return base + number if base else 0


def numbers_of(text: str, count: int, called: str) -> list[int]:
    """The shards that a text such as `0-3` or `0,2` names, of so many; raises ConfigError."""
    if not RANGES.fullmatch(text):
        raise ConfigError(f"{called} {text!r} must be numbers of shards, as 2 or 0-3, from 0 to {count - 1}")
    found: set[int] = set()
    for part in re.split(r"[ ,]+", text):
        low, _, high = part.partition("-")
        last = int(high or low)
        if int(low) > last or last >= count:
            raise ConfigError(
                f"{called} {text!r} names shards that do not exist: there are {count}, from 0 to {count - 1}"
            )
        found.update(range(int(low), last + 1))
    return sorted(found)


def ranges_of(numbers: Iterable[int]) -> str:
    """These numbers as `numbers_of` takes them: `0-3,6`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][-1] == number - 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if run[1:] else f"{run[0]}" for run in found)


def here(config: Config) -> list[int]:
    """The shards that run on this machine."""
    if config.shard in ("", NONE):
        return [] if config.shard else list(range(config.shards))
    return numbers_of(config.shard, config.shards, "shard")


def elsewhere(config: Config) -> dict[int, tuple[str, int]]:
    """Host and first port of the machines on which other shards are reached, by shard; raises ConfigError."""
    found: dict[int, tuple[str, int]] = {}
    for each in config.announce:
        shards, _, address = each.partition("=")
        host, colon, port = address.rpartition(":")
        is_port = port.isdecimal() and port.isascii() and 0 < int(port) <= PORT_MAX - config.shards + 1
        if not (host and colon and is_port) or NO_HOST.intersection(host):
            raise ConfigError(
                f"announce {each!r} must be SHARDS=HOST:PORT, as 4-7=b.example.net:6379: shard k is reached at PORT + k"
            )
        for number in numbers_of(shards, config.shards, f"announce {each!r}:"):
            if number in found:
                raise ConfigError(f"announce names shard {number} twice: give one address for each shard")
            found[number] = split_address(address)
    return found


def own_host(config: Config) -> str:
    """The host at which clients reach the shards of this machine; empty if no setting tells."""
    host = config.announce_host or config.bind
    return "" if host in WILDCARDS else host.strip("[]")


def replication_host(config: Config) -> str:
    """The host at which other regions reach these shards; empty if they use the one that they know already."""
    if config.announce_host:
        return config.announce_host.strip("[]")
    unknown = config.replication_bind in WILDCARDS or is_loopback(config.replication_bind)
    return "" if unknown else config.replication_bind


def validate_shards(config: Config) -> None:
    """Raise ConfigError for what cannot work."""
    if not 1 <= config.shards <= SHARDS_MAX:
        raise ConfigError(f"shards {config.shards} must be between 1 and {SHARDS_MAX}")
    if config.shards == 1:
        for name, given in (("shard", config.shard), ("announce", config.announce)):
            if given:
                raise ConfigError(f"{name} belongs to a region of several shards: give --shards too")
        if isinstance(config.replace, str):
            raise ConfigError(f"replace {config.replace!r} names shards, and this region has one: give --replace alone")
        return
    replaced(config)
    if config.oci_port is not None:
        raise ConfigError(
            "oci-port does not work with more than one shard yet: found a cluster of one shard for clients of OCI"
        )
    _validate_ranges(config)
    told, running = elsewhere(config), here(config)
    if not own_host(config) and any(number not in told for number in running):
        raise ConfigError(
            f"bind {config.bind} does not say where clients are sent: give the name of this machine as --announce-host"
        )
    _refuse_own_address(config, told, running)
    unknown = [number for number in range(config.shards) if number not in told and number not in running]
    if unknown:
        raise ConfigError(
            f"shard {unknown[0]} runs elsewhere, and nothing says where: give --announce {unknown[0]}=HOST:PORT"
        )


def _refuse_own_address(config: Config, told: dict[int, tuple[str, int]], running: list[int]) -> None:
    """The address alone says where the directory of a shard is at home (runtime/shard_place.py)."""
    port = config.port or config.tls_port
    for number in sorted(set(told).difference(running)):
        if told[number] == (own_host(config), port):
            raise ConfigError(
                f"announce has shard {number} at port {port + number} of {own_host(config)}, as if it ran on this"
                " machine: give each machine of a region an address of its own, or two of them could serve one shard"
            )


def _validate_ranges(config: Config) -> None:
    """Each port is the first of as many as there are shards."""
    listeners = listeners_of(config)
    for each in listeners:
        if each.port == 0 and each.setting in ("port", "tls-port", "replication-port", "bulk-port"):
            raise ConfigError(f"{each.setting} 0 does not work with shards, which are reached at known ports: give one")
        if each.port + config.shards - 1 > PORT_MAX:
            raise ConfigError(f"{range_of(each, config.shards)} exceed {PORT_MAX}: give a lower one")
    for one, other in combinations(listeners, 2):
        same = one.bind == other.bind or {one.bind, other.bind} & WILDCARDS
        if one.port and other.port and same and abs(one.port - other.port) < config.shards:
            raise ConfigError(
                f"{range_of(one, config.shards)} and {range_of(other, config.shards)} overlap: each shard has a port of"
                " each kind, so give others"
            )


def range_of(listener: Listener, count: int) -> str:
    return f"the {listener.setting}s {listener.port} to {listener.port + count - 1}"
