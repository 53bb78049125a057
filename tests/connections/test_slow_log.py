"""What the slow log keeps, and for how long; its commands are compared with Redis's in test_diagnostics."""

from __future__ import annotations

from crdtstream.connections.slow_log import OFF, REDACTED, SlowLog, kept


def log_of(*limits: int) -> SlowLog:
    log = SlowLog()
    log.limit(*limits)
    return log


def add(log: SlowLog, count: int) -> None:
    for _ in range(count):
        log.add([b"PING"], 5_999, 7_999, "127.0.0.1:5", b"me")


def test_entries_are_numbered_and_bounded() -> None:
    log = log_of(0, 3)
    add(log, 5)
    assert [entry.number for entry in log.newest(-1)] == [4, 3, 2]
    assert [entry.number for entry in log.newest(2)] == [4, 3]
    entry = log.newest(1)[0]
    assert (entry.took_us, entry.time_s, entry.address, entry.client_name) == (5, 7, "127.0.0.1:5", b"me")
    log.limit(0, 1)
    assert len(log.entries) == 3
    add(log, 1)
    assert [entry.number for entry in log.newest(-1)] == [5]


def test_off() -> None:
    assert log_of(OFF, 128).least_ns > 10**18
    log = log_of(0, 0)
    add(log, 1)
    assert not log.entries


def test_a_limit_beyond_all_time() -> None:
    assert log_of(2**63 - 1, 1).least_ns > 10**18
    assert log_of(0, 1).least_ns == 0
    assert log_of(7, 1).least_ns == 7_000


def test_passwords_are_hidden() -> None:
    assert kept([b"auth", b"me", b"x"]) == [b"auth", REDACTED, REDACTED]
    assert kept([b"HELLO", b"3", b"SETNAME", b"a", b"auth", b"me", b"x"])[4:] == [b"auth", REDACTED, REDACTED]
    assert kept([b"Config", b"set", b"timeout", b"0", b"RequirePass", b"x"])[4:] == [b"RequirePass", REDACTED]
    assert kept([b"CONFIG", b"GET", b"requirepass"]) == [b"CONFIG", b"GET", b"requirepass"]
