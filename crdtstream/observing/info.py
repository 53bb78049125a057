"""INFO as fields, and what a region says of itself there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Vector = Mapping[str, int]


@dataclass(frozen=True)
class RegionReport:
    """What a region says of itself in INFO: who it is, whether it serves, and its room. `certificates` are the ports
    that speak TLS, and the second since 1970 at which the certificate of each ends.
    """

    name: str
    region: int
    cluster: str
    shard: int
    shards: int
    origin: str
    run_id: str
    version: str
    id_mode: str
    loading: str
    admitted: bool
    uptime_s: int
    memory_bytes: int
    memory_limit_bytes: int
    system_bytes: int
    hot_bytes_max: int
    hot_bytes_unspillable: int
    hot_bytes_last_blocks: int
    hot_bytes_unsaved: int
    disk_full: bool
    disk_free_bytes: int
    disk_needed_bytes: int
    disk_reserve_bytes: int
    disk_remedy: str
    log_bytes: int
    log_held_bytes: int
    log_damages: int
    blocks_unreadable: int
    blocks_first_unreadable: str
    checkpoint_failed: bool
    clients: int
    clients_limit: int
    commands_per_s: int
    commands: int
    passwords_denied: int
    audit_differences: int
    audit_shared_origins: str
    start_over: str
    keys: int
    certificates: Mapping[str, int]
    vector: Vector
    durable: Vector

    @property
    def memory_short(self) -> bool:
        return 0 < self.memory_limit_bytes <= self.memory_bytes

    @property
    def held_in_memory(self) -> bool:
        """True if blocks that cannot be spilled take more than all blocks may."""
        return 0 < self.hot_bytes_max < self.hot_bytes_unspillable

    @property
    def disk_nearly_full(self) -> bool:
        """True if little is left, and writes go on. A region that starts does not know yet how much is free."""
        return not self.disk_full and 0 < self.disk_free_bytes < self.disk_low_bytes

    @property
    def disk_low_bytes(self) -> int:
        """Below this, little is left: a checkpoint rewrites what the log has gained, beside it, and a reserve that was
        used is filled again before writes go on.
        """
        return 2 * (self.log_bytes + self.disk_reserve_bytes)


def fields_of_info(reply: bytes) -> dict[str, str]:
    """The fields of all sections that were asked for."""
    lines = reply.decode("utf-8", "surrogateescape").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def pairs_of(text: str) -> dict[str, str]:
    """A value of INFO that is several: `keys=3,expires=0`. The last one may contain what separates the others."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def vector_of(text: str) -> dict[str, int]:
    return {origin: int(counter) for origin, counter in pairs_of(text).items()}


def report_of(fields: Mapping[str, str]) -> RegionReport:
    """Read INFO; a field that the region does not have is 0 or empty."""

    def text(name: str) -> str:
        return fields.get(name, "")

    def number(name: str) -> int:
        return int(fields.get(name) or 0)

    return RegionReport(
        name=text("region_name"),
        region=number("region"),
        cluster=text("cluster"),
        shard=number("shard"),
        shards=number("shards") or 1,
        origin=text("origin"),
        run_id=text("run_id"),
        version=text("crdtstream_version"),
        id_mode=text("id_mode"),
        loading=text("loading_reason"),
        admitted=text("admitted") == "1",
        uptime_s=number("uptime_in_seconds"),
        memory_bytes=number("used_memory"),
        memory_limit_bytes=number("maxmemory"),
        system_bytes=number("total_system_memory"),
        hot_bytes_max=number("hot_bytes_max"),
        hot_bytes_unspillable=number("hot_bytes_unspillable"),
        hot_bytes_last_blocks=number("hot_bytes_last_blocks"),
        hot_bytes_unsaved=number("hot_bytes_unsaved"),
        disk_full=text("disk_full") == "1",
        disk_free_bytes=number("disk_free_bytes"),
        disk_needed_bytes=number("disk_needed_bytes"),
        disk_reserve_bytes=number("disk_reserve_bytes"),
        disk_remedy=text("disk_remedy"),
        log_bytes=number("log_bytes"),
        log_held_bytes=number("log_held_bytes"),
        log_damages=number("log_damages"),
        blocks_unreadable=number("blocks_unreadable"),
        blocks_first_unreadable=text("blocks_first_unreadable"),
        checkpoint_failed=text("rdb_last_bgsave_status") == "err",
        clients=number("connected_clients"),
        clients_limit=number("maxclients"),
        commands_per_s=number("instantaneous_ops_per_sec"),
        commands=number("total_commands_processed"),
        passwords_denied=number("acl_access_denied_auth"),
        audit_differences=number("audit_differences"),
        audit_shared_origins=text("audit_shared_origins"),
        start_over=text("start_over"),
        keys=sum(int(pairs_of(value)["keys"]) for name, value in fields.items() if is_database(name)),
        certificates={port: int(end_s) for port, end_s in pairs_of(text("certificates_not_after")).items()},
        vector=vector_of(text("vector")),
        durable=vector_of(text("durable_vector")),
    )


def is_database(name: str) -> bool:
    return name.startswith("db") and name[2:].isdigit()


def lacking(held: Vector, applied: Vector) -> int:
    """How many effects of `held` are not in `applied`."""
    return sum(max(0, counter - applied.get(origin, 0)) for origin, counter in held.items())


def union(vectors: Iterable[Vector]) -> dict[str, int]:
    """The least vector that contains all of these."""
    found: dict[str, int] = {}
    for vector in vectors:
        for origin, counter in vector.items():
            found[origin] = max(counter, found.get(origin, 0))
    return found
