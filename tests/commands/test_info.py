"""INFO: its form, and what tools read from it."""

from __future__ import annotations

from crdtstream.connections.cluster import PeerStatus
from crdtstream.core.values.causality import VersionVector, origin_of
from crdtstream.settings.config import Config, Limits
from tests.commands.harness import Region


def text_of(reply: bytes | None) -> str:
    assert reply is not None and reply.startswith(b"$")
    return reply.split(b"\r\n", 1)[1][:-2].decode()


def fields_of(region: Region, *sections: str) -> dict[str, str]:
    lines = text_of(region.run("INFO", *sections)).split("\r\n")
    return dict(line.split(":", 1) for line in lines if line and not line.startswith("#"))


def titles_of(region: Region, *sections: str) -> list[str]:
    return [line[2:] for line in text_of(region.run("INFO", *sections)).split("\r\n") if line.startswith("#")]


def test_sections() -> None:
    region = Region()
    default = [
        "Server",
        "Clients",
        "Memory",
        "Persistence",
        "Stats",
        "Replication",
        "CPU",
        "Modules",
        "Errorstats",
        "Cluster",
        "Keyspace",
    ]
    assert titles_of(region) == titles_of(region, "default") == default
    for word in ("all", "everything"):
        assert set(titles_of(region, word)) == {*default, "Commandstats", "Latencystats"}
    assert titles_of(region, "keyspace", "SERVER") == ["Server", "Keyspace"]
    assert titles_of(region, "nothing") == []


def test_form() -> None:
    assert (
        text_of(Region().run("INFO", "cluster", "keyspace")) == "# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\n"
    )


def test_verbatim_in_resp3() -> None:
    region = Region()
    region.line("HELLO 3")
    assert region.line("INFO cluster") == b"=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n"


def test_what_tools_read() -> None:
    region = Region()
    region.context.about.process_id = 77
    region.context.about.commit = "53236e983a8e"
    region.line("XADD a * f v")
    region.line("SELECT 2")
    region.line("XADD b * f v")
    region.line("WAIT 1 0", region.connect())
    region.replica.keyspace.now_ms += 90_000_000
    fields = fields_of(region)
    expected = {
        "redis_version": "8.10.0",
        "redis_mode": "standalone",
        "arch_bits": "64",
        "process_id": "77",
        "crdtstream_commit": "53236e983a8e",
        "uptime_in_seconds": "90000",
        "uptime_in_days": "1",
        "connected_clients": "2",
        "blocked_clients": "1",
        "total_commands_processed": "5",
        "db0": "keys=1,expires=0,avg_ttl=0",
        "db2": "keys=1,expires=0,avg_ttl=0",
        "role": "master",
        "loading": "0",
        "aof_last_write_status": "ok",
    }
    assert {name: fields[name] for name in expected} == expected
    assert "db1" not in fields


def test_trouble_is_shown() -> None:
    region = Region()
    region.context.standing.writable = False
    region.context.standing.loading = "waiting for west"
    fields = fields_of(region, "persistence")
    assert (fields["loading"], fields["loading_reason"]) == ("1", "waiting for west")
    assert fields["aof_last_write_status"] == "err"


def test_command_and_error_counts() -> None:
    region = Region(limits=Limits(auth_failure_delay_ms=0))
    for text in ("ECHO", "SELECT 99", "SELECT 1", "FOO", "AUTH a b"):
        region.line(text)
    fields = fields_of(region, "commandstats", "errorstats")
    assert fields["cmdstat_select"] == "calls=2,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1"
    assert fields["cmdstat_echo"] == "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0"
    assert fields["errorstat_ERR"] == "count=3"
    assert fields["errorstat_WRONGPASS"] == "count=1"
    stats = fields_of(region, "stats")
    assert (stats["total_error_replies"], stats["acl_access_denied_auth"]) == ("4", "1")


def test_memory() -> None:
    region = Region()
    region.line("CONFIG SET maxmemory 3gb")
    for held in (5 << 20, 1536):
        region.context.about.memory_bytes = held
        region.context.measure_memory()
    fields = fields_of(region, "memory")
    expected = {
        "used_memory": "1536",
        "used_memory_human": "1.50K",
        "used_memory_rss": "1536",
        "used_memory_peak": str(5 << 20),
        "used_memory_peak_human": "5.00M",
        "used_memory_peak_perc": "0.03%",
        "total_system_memory_human": "0B",
        "maxmemory": str(3 << 30),
        "maxmemory_human": "3.00G",
        "maxmemory_policy": "noeviction",
    }
    assert {name: fields[name] for name in expected} == expected


def test_rates_and_hits() -> None:
    region = Region()
    statistics = region.context.statistics
    assert fields_of(region, "stats")["instantaneous_ops_per_sec"] == "0"
    for _ in range(20):
        for _ in range(30):
            region.line("PING")
        region.replica.keyspace.now_ms += 100
        statistics.sample(region.context.now_ms)
    for text in ("XADD s 1-1 f v", "XLEN s", "XLEN t", "EXISTS s t", "XRANGE t - +", "XRANGE t x +", "DEL s"):
        region.line(text)
    fields = fields_of(region, "stats")
    assert fields["instantaneous_ops_per_sec"] == "300"
    assert (fields["keyspace_hits"], fields["keyspace_misses"]) == ("2", "3")
    region.line("CONFIG RESETSTAT")
    fields = fields_of(region, "stats", "commandstats")
    assert fields["keyspace_hits"] == fields["instantaneous_ops_per_sec"] == "0"
    assert "cmdstat_ping" not in fields


def test_persistence() -> None:
    region = Region()
    started_s = region.context.now_ms // 1000
    fields = fields_of(region, "persistence")
    assert (fields["rdb_last_save_time"], fields["rdb_changes_since_last_save"]) == (str(started_s), "0")
    assert (fields["aof_enabled"], fields["rdb_bgsave_in_progress"]) == ("1", "0")
    region.line("XADD s 1-1 f v")
    saving = region.context.saving
    saving.request()
    saving.begin()
    fields = fields_of(region, "persistence")
    assert (fields["rdb_changes_since_last_save"], fields["rdb_bgsave_in_progress"]) == ("1", "1")
    region.line("XGROUP CREATE s g 0")
    region.line("XGROUP CREATECONSUMER s g c")
    region.line("XREADGROUP GROUP g c STREAMS s >")
    assert fields_of(region, "persistence")["rdb_changes_since_last_save"] == "4"
    saving.end(5_000, "no room")
    assert fields_of(region, "persistence")["rdb_last_bgsave_status"] == "err"


def test_processor_and_config_file() -> None:
    region = Region()
    region.context.about.cpu_user_s = 1.5
    region.context.reconfigure(Config("east", 1, "shop", config_file="/etc/region.toml"))
    assert fields_of(region, "cpu")["used_cpu_user"] == "1.500000"
    assert fields_of(region, "server")["config_file"] == "/etc/region.toml"


def test_when_certificates_end() -> None:
    region = Region()
    assert fields_of(region, "server")["certificates_not_after"] == ""
    region.context.about.certificates = {"replication": 1_800_000_000, "redis": 1_900_000_000}
    assert fields_of(region, "server")["certificates_not_after"] == "replication=1800000000,redis=1900000000"


def test_replication() -> None:
    region = Region(origin_of(1, 0xABC))
    region.configure(name="east", region=1, cluster="shop", id_mode="semi-strict", peers=("h:1", "h:2"))
    region.line("XADD s * f v")
    region.line("XADD s * f v")
    region.neighbours.vector.advance(region.replica.applied.origin, 1)
    region.progress.applied[2] = VersionVector({region.replica.applied.origin: 1})
    region.neighbours.shown = [PeerStatus(2, "west", "h:1", "open", 3, 2), PeerStatus(3, "north", "h:2", "down", 9000)]
    region.neighbours.shown[0].sent_bytes = 9
    north = region.neighbours.shown[1]
    north.unlinked_ms, north.reason = 60_000, "refused: give a,\r\n b"
    fields = fields_of(region, "replication")
    expected = {
        "role": "master",
        "cluster": "shop",
        "region": "1",
        "region_name": "east",
        "origin": "1.abc",
        "id_mode": "semi-strict",
        "vector": "1.abc=2",
        "durable_vector": "1.abc=1",
        "peers": "2",
        "connected_regions": "1",
        "largest_write_limit": "batch_bytes_max",
        "peer0": "region=2,name=west,address=h:1,link=open,silent_ms=3,lag=1,durable_lag=2,held_back_bytes=0,"
        "sent_bytes=9",
        "peer1": "region=3,name=north,address=h:2,link=down,silent_ms=9000,lag=2,durable_lag=2,held_back_bytes=0,"
        "sent_bytes=0,unlinked_ms=60000,reason=refused: give a; b",
    }
    assert {name: fields[name] for name in expected} == expected


def test_keys_that_clients_wait_for_in_groups() -> None:
    region = Region()
    region.line("XGROUP CREATE s g 0 MKSTREAM")
    for text in ("XREAD BLOCK 0 STREAMS s t $ $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >"):
        region.line(text, client=region.connect())
    info = region.line("INFO clients") or b""
    assert b"total_blocking_keys:2\r\ntotal_blocking_keys_on_nokey:1\r\n" in info
