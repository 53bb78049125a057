"""CONFIG: names, values, errors in Redis's words, and that what is set takes effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from crdtstream.commands.settings import SETTINGS, meant
from crdtstream.core.values.entry_id import STRICT
from crdtstream.protocols import replies
from crdtstream.scenarios.reply import read_reply
from crdtstream.settings.config import Config, Limits
from simulations.cluster import CLIENT, Cluster
from tests.commands.harness import REDIS, Connection, Region, redis_server

OK = b"+OK\r\n"


@pytest.fixture
def region() -> Region:
    return Region()


def shown(region: Region, *patterns: str) -> dict[str, str]:
    flat = read_reply(region.run("CONFIG", "GET", *patterns) or b"")
    assert isinstance(flat, list)
    return {str(flat[at]): str(flat[at + 1]) for at in range(0, len(flat), 2)}


def failure(name: str, reason: str) -> bytes:
    return f"-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}\r\n".encode()


# Names


def test_every_field_has_a_name() -> None:
    own = [field.name for field in (*fields(Config), *fields(Limits)) if field.name != "limits"]
    assert not [name for name in own if name.replace("_", "-") not in SETTINGS]


def test_an_unknown_name_of_ours_is_told_which_was_meant(region: Region) -> None:
    unknown = b"-ERR Unknown option or number of arguments for CONFIG SET - '%b'"
    for name, ours in ((b"peer", b"peers"), (b"Heartbeat_MS", b"heartbeat-ms"), (b"client-max", b"clients-max")):
        assert region.run("CONFIG", "SET", name, "1") == unknown % name + b': did you mean "%b"?\r\n' % ours
    for name in (b"maxmemry", b"cluster-announce-ip", b"a"):
        assert region.run("CONFIG", "SET", name, "1") == unknown % name + b"\r\n"
    assert region.line("CONFIG GET peer") == b"*0\r\n"


def test_a_limit_that_open_files_lower_is_shown_as_it_is(region: Region) -> None:
    """Not as it was asked for, since an alert compares with it; CONFIG REWRITE keeps what was asked for."""
    region.context.about.clients_possible = 72
    names = {"maxclients": "72", "clients-max": "72"}
    assert shown(region, *names) == names
    assert b"maxclients:72\r\n" in (region.line("INFO clients") or b"")
    assert region.context.settings.config.limits.clients_max == 10_000
    text = "The operating system is not able to handle the specified number of clients, try with 72"
    for name in names:
        assert region.line(f"CONFIG SET {name} 73") == failure(name, text)
        assert region.line(f"CONFIG SET {name} 72 timeout 7") == OK
    assert region.line("CONFIG SET maxclients 50") == OK
    assert shown(region, "clients-max") == {"clients-max": "50"}


def test_patterns(region: Region) -> None:
    assert shown(region, "maxmemory") == {"maxmemory": "0"}
    assert shown(region, "MAXmemory", "maxmemory-p*", "nothing", "no*thing") == {
        "MAXmemory": "0",
        "maxmemory-policy": "noeviction",
    }
    assert set(shown(region, "stream-node-*")) == {
        "stream-node-max-entries",
        "stream-node-max-bytes",
        "stream-node-entries-max",
        "stream-node-bytes-max",
    }
    assert set(shown(region, "*")) == set(SETTINGS) - {"http-token", "requirepass"}
    assert shown(region, "requirepass", "requirepas?") == {}


def test_a_map_in_resp3(region: Region) -> None:
    region.line("HELLO 3")
    assert region.line("CONFIG GET maxmemory nothing") == b"%1\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n"
    assert region.line("CONFIG GET nothing") == b"%0\r\n"


def test_what_was_read_can_be_written_back(region: Region) -> None:
    for name, value in shown(region, "*").items():
        reply = region.run("CONFIG", "SET", name, value)
        assert reply == (OK if SETTINGS[name].settable else failure(name, "can't set immutable config")), name
    assert region.context.limits == Limits()


# Values


def test_several_at_once_or_none(region: Region) -> None:
    assert region.line("CONFIG SET maxclients 5 timeout x") == failure(
        "timeout", "argument couldn't be parsed into an integer"
    )
    assert region.context.limits == Limits()
    assert region.line("CONFIG SET maxclients 5 TimeOut 7 heartbeat-ms 8") == OK
    assert region.context.limits == replace(Limits(), clients_max=5, client_idle_s_max=7, heartbeat_ms=8)


def test_limits_that_cannot_work(region: Region) -> None:
    assert region.line("CONFIG SET clients-max 7 heartbeat-ms 0") == (
        b"-ERR CONFIG SET failed - limit heartbeat_ms 0 must be at least 1\r\n"
    )
    assert region.context.limits == Limits()


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("12", 12), ("12b", 12), ("1k", 1000), ("1KB", 1024), ("2m", 2_000_000), ("3gB", 3 << 30)],
)
def test_memory_values(region: Region, text: str, count: int) -> None:
    assert region.line(f"CONFIG SET maxmemory {text}") == OK
    assert region.context.limits.memory_bytes_max == count
    assert shown(region, "maxmemory", "memory-bytes-max") == {
        "maxmemory": str(count),
        "memory-bytes-max": str(count),
    }


def test_what_redis_can_change_and_this_cannot(region: Region) -> None:
    assert region.line("CONFIG SET appendfsync always") == failure("appendfsync", "can't set immutable config")
    assert region.line("CONFIG SET maxmemory-policy allkeys-lru") == failure(
        "maxmemory-policy", "argument(s) must be one of the following: noeviction"
    )
    assert region.run("CONFIG", "SET", "save", "3600 1") == failure(
        "save", "argument(s) must be one of the following: ''"
    )
    assert region.line("CONFIG SET segment-bytes-max 1") == failure("segment-bytes-max", "can't set immutable config")


def test_levels_of_the_log(region: Region) -> None:
    for set_to, ours, theirs in (("verbose", "info", "notice"), ("WARNING", "warning", "warning")):
        assert region.line(f"CONFIG SET loglevel {set_to}") == OK
        assert shown(region, "log-level", "loglevel") == {"log-level": ours, "loglevel": theirs}
    assert region.line("CONFIG SET log-level error") == OK
    assert shown(region, "loglevel") == {"loglevel": "nothing"}


# Effects


def test_a_limit_of_memory(region: Region) -> None:
    region.context.about.memory_bytes = 1000
    assert region.line("CONFIG SET maxmemory 999") == OK
    refusal = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    for text in ("XADD s 1-1 f v", "XGROUP CREATE s g 0 MKSTREAM"):
        assert region.line(text) == refusal
    assert region.line("XLEN s") == region.line("DEL s") == region.line("XTRIM s MAXLEN 0") == b":0\r\n"
    assert region.line("CONFIG SET maxmemory 1000") == OK
    assert region.line("XADD s 1-1 f v") == b"$3\r\n1-1\r\n"
    region.context.about.memory_bytes = 1001
    region.context.measure_memory()
    assert region.line("XADD s 1-2 f v") == refusal


def test_a_password_is_for_those_who_come_later() -> None:
    cluster = Cluster(1, STRICT)
    assert cluster.execute(1, b"CONFIG SET requirepass secret".split()) == OK
    assert cluster.execute(1, b"PING".split()) == b"+PONG\r\n"
    cluster.machines[1].connect(2, 1)
    assert cluster.execute(1, b"PING".split(), 2) == b"-NOAUTH Authentication required.\r\n"
    assert cluster.execute(1, b"AUTH secret".split(), 2) == OK
    assert cluster.execute(1, [b"CONFIG", b"SET", b"requirepass", b""]) == OK
    cluster.machines[1].connect(3, 1)
    assert cluster.execute(1, b"PING".split(), 3) == b"+PONG\r\n"


def test_nodes_of_a_stream(region: Region) -> None:
    for _ in range(25):
        region.line("XADD s * f v")
    assert region.line("XTRIM s MAXLEN ~ 1") == b":0\r\n"
    region.line("CONFIG SET stream-node-max-entries 10")
    assert region.line("XTRIM s MAXLEN ~ 1") == b":20\r\n"


def test_idle_clients_are_closed() -> None:
    cluster = Cluster(1, STRICT)
    region = cluster.machines[1]
    region.connect(2, cluster.now_ms)
    cluster.execute(1, b"CONFIG SET timeout 5".split())
    assert cluster.execute(1, b"XREAD BLOCK 0 STREAMS s $".split(), 2) is None
    cluster.tick(5_000)
    assert set(cluster.node(1).context.clients) == {CLIENT, 2}
    cluster.tick(100)
    assert set(cluster.node(1).context.clients) == {2}, "who waits is not idle"


def test_sessions_follow() -> None:
    cluster = Cluster(1, STRICT)
    cluster.execute(1, b"CONFIG SET heartbeat-ms 77".split())
    cluster.tick(1)
    assert cluster.node(1).exchange.view.settings.config.limits.heartbeat_ms == 77


# REWRITE


def test_rewrite_waits_for_the_file(region: Region) -> None:
    assert region.line("CONFIG REWRITE") == b"-ERR The server is running without a config file\r\n"
    region.context.reconfigure(Config("east", 1, "shop", config_file="region.toml"))
    for outcome, reply in (
        ("", OK),
        ("Read-only file system", b"-ERR Rewriting config file: Read-only file system\r\n"),
    ):
        assert region.line("CONFIG REWRITE") is None
        assert region.context.requests.rewrite
        region.context.requests.rewrite, region.context.requests.rewrite_failure = False, outcome
        for waiter in region.context.parking.keyless():
            region.serve(waiter)
        assert region.late_replies(region.client) == [reply]


def test_the_node_tells_who_waits_for_the_file() -> None:
    cluster = Cluster(1, STRICT)
    node = cluster.node(1)
    node.context.reconfigure(replace(node.settings.config, config_file="region.toml"))
    assert cluster.execute(1, b"CONFIG REWRITE".split()) is None
    assert cluster.execute(1, b"PING".split()) is None
    node.config_rewritten("")
    cluster.machines[1].perform()
    assert cluster.machines[1].pop_reply() == OK + replies.PONG


# Beside Redis


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis"), "--enable-debug-command", "yes") as number:
        yield number


SAME = [
    "CONFIG; CONFIG FOO; CONFIG GET; CONFIG GET nothing; CONFIG HELP x; CONFIG HELP; CONFIG RESETSTAT x",
    "CONFIG RESETSTAT; CONFIG REWRITE; CONFIG REWRITE x; CONFIG SET; CONFIG SET a; CONFIG SET a b c; CONFIG SET a b",
    "CONFIG SET maxmemory x; CONFIG SET maxmemory -1; CONFIG SET maxmemory 1.5gb; CONFIG SET maxmemory 1tb",
    "CONFIG SET maxmemory 1kb maxmemory 2; CONFIG SET maxmemory 1 foo 2; CONFIG SET Foo 1 maxmemory x",
    "CONFIG SET maxmemory 1GB; CONFIG GET maxmemory; CONFIG SET maxmemory 0; CONFIG GET MAXMEMORY",
    "CONFIG SET maxclients 0; CONFIG SET maxclients x; CONFIG SET maxclients 4294967296; CONFIG SET timeout -1",
    "CONFIG SET protected-mode x; CONFIG SET protected-mode YES; CONFIG GET protected-mode; CONFIG GET save",
    "CONFIG SET loglevel x; CONFIG SET loglevel Warning; CONFIG GET loglevel; CONFIG SET loglevel notice",
    "CONFIG SET stream-node-max-entries -1; CONFIG SET stream-node-max-bytes -5; CONFIG SET stream-node-max-bytes 1k",
    "CONFIG SET stream-node-max-bytes 4096; CONFIG GET stream-node-max-*; CONFIG SET stream-node-max-entries 100",
    "CONFIG SET proto-max-bulk-len 1; CONFIG SET proto-max-bulk-len 2mb; CONFIG GET proto-max-bulk-len",
    "CONFIG SET databases 16; CONFIG SET daemonize no; CONFIG GET databases; CONFIG SET timeout 3; CONFIG GET timeout",
    "CONFIG SET timeout 0; CONFIG SET databases 1 databases 1; CONFIG SET hz 10",
]


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
@pytest.mark.parametrize("script", SAME)
def test_as_redis(port: int, region: Region, script: str) -> None:
    connection = Connection(port)
    try:
        for line in script.split("; "):
            ours, theirs = region.line(line), connection.line(line)
            assert unordered(ours) == unordered(theirs), line
    finally:
        connection.close()


@pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")
def test_names_of_redis_get_the_words_of_redis_alone(port: int) -> None:
    connection = Connection(port)
    try:
        flat = read_reply(connection.line("CONFIG GET *") or b"")
    finally:
        connection.close()
    assert isinstance(flat, list) and len(flat) > 300
    assert [name for name in map(str, flat[::2]) if name not in SETTINGS and meant(name)] == []


def unordered(reply: bytes | None) -> object:
    """The pairs of a CONFIG GET come in any order."""
    if reply is None or not reply.startswith(b"*"):
        return reply
    return sorted(reply.split(b"\r\n"))
