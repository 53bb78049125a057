"""SAVE, SHUTDOWN and DEBUG: who waits for what, and what the runtime is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.values.entry_id import STRICT
from crdtstream.settings.config import Config
from simulations.cluster import Cluster
from tests.commands.harness import Region

OK = b"+OK\r\n"
SYNTAX_ERROR = b"-ERR syntax error\r\n"
STOP_FAILED = b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"


@pytest.fixture
def region() -> Region:
    return Region()


def end_checkpoint(region: Region, failure: str = "") -> None:
    saving = region.context.saving
    saving.begin()
    saving.end(region.context.now_ms, failure)
    for waiter in region.context.parking.keyless():
        region.serve(waiter)


# Saving


def test_save_waits_for_its_checkpoint(region: Region) -> None:
    assert region.line("SAVE") is None
    assert region.context.saving.requested
    region.replica.keyspace.now_ms += 61_000
    end_checkpoint(region)
    assert region.late_replies(region.client) == [OK]
    assert region.line("LASTSAVE") == b":%d\r\n" % (region.context.now_ms // 1000)


def test_save_waits_for_the_one_after_that_which_runs(region: Region) -> None:
    saving = region.context.saving
    saving.request()
    saving.begin()
    assert region.line("SAVE") is None
    saving.end(5, "")
    for waiter in region.context.parking.keyless():
        region.serve(waiter)
    assert region.late_replies(region.client) == []
    end_checkpoint(region)
    assert region.late_replies(region.client) == [OK]


def test_a_failed_save_says_why(region: Region) -> None:
    region.line("SAVE")
    end_checkpoint(region, "no room")
    assert region.late_replies(region.client) == [b"-ERR no room\r\n"]


def test_save_beside(region: Region) -> None:
    assert region.line("BGSAVE") == b"+Background saving started\r\n"
    assert region.context.saving.requested
    region.context.saving.begin()
    assert region.line("BGSAVE SCHEDULE") == b"+Background saving scheduled\r\n"
    assert region.context.saving.requested
    assert region.line("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    assert region.line("BGSAVE x") == region.line("BGSAVE SCHEDULE x") == SYNTAX_ERROR


def test_before_a_save_the_start_counts(region: Region) -> None:
    region.replica.keyspace.now_ms += 5_000
    assert region.line("LASTSAVE") == b":%d\r\n" % (region.context.clock.started_ms // 1000)


def test_a_client_whose_wait_is_ended_gets_an_error(region: Region) -> None:
    other = region.connect()
    assert region.line("SAVE", other) is None
    assert region.line(f"CLIENT UNBLOCK {other.id}") == b":1\r\n"
    assert region.context.outbox[0][1].startswith(b"-UNBLOCKED ")


# Stopping


@pytest.mark.parametrize("words", ["", "NOSAVE", "nosave now force", "NOW", "FORCE"])
def test_shutdown(region: Region, words: str) -> None:
    assert region.line(f"SHUTDOWN {words}") is None
    assert region.context.requests.stop and not region.context.saving.requested
    assert region.context.requests.stop_at_once == ("NOSAVE" in words.upper())


def test_a_second_shutdown_may_be_at_once(region: Region) -> None:
    other = region.connect()
    region.line("SHUTDOWN")
    assert not region.context.requests.stop_at_once
    region.line("SHUTDOWN NOSAVE", other)
    assert region.context.requests.stop_at_once


@pytest.mark.parametrize("words", ["x", "SAVE NOSAVE", "ABORT NOW", "NOW x"])
def test_shutdown_with_bad_words(region: Region, words: str) -> None:
    assert region.line(f"SHUTDOWN {words}") == SYNTAX_ERROR
    assert not region.context.requests.stop


def test_shutdown_after_a_checkpoint(region: Region) -> None:
    assert region.line("SHUTDOWN SAVE") is None
    assert not region.context.requests.stop
    end_checkpoint(region)
    assert region.context.requests.stop and region.late_replies(region.client) == []
    assert region.context.requests.stop_at_once, "the checkpoint is there"


def test_shutdown_after_a_failed_checkpoint(region: Region) -> None:
    other = region.connect()
    region.line("SHUTDOWN SAVE")
    end_checkpoint(region, "no room")
    assert not region.context.requests.stop and region.late_replies(region.client) == [STOP_FAILED]
    region.line("SHUTDOWN SAVE FORCE", other)
    end_checkpoint(region, "no room")
    assert region.context.requests.stop


def test_shutdown_is_aborted() -> None:
    cluster = Cluster(1, STRICT)
    region = cluster.machines[1]
    region.connect(2, 1)
    assert cluster.execute(1, b"SHUTDOWN ABORT".split()) == b"-ERR No shutdown in progress.\r\n"
    assert cluster.execute(1, b"SHUTDOWN SAVE".split(), 2) is None
    assert cluster.execute(1, b"SHUTDOWN ABORT".split()) == OK
    assert region.pop_reply(2) == STOP_FAILED
    assert not cluster.node(1).context.requests.stop
    assert cluster.execute(1, b"PING".split(), 2) == b"+PONG\r\n"
    cluster.execute(1, b"SHUTDOWN".split(), 2)
    assert cluster.execute(1, b"SHUTDOWN ABORT".split()) == b"-ERR No shutdown in progress.\r\n"


# DEBUG


def test_only_the_caller_sleeps() -> None:
    cluster = Cluster(1, STRICT)
    region = cluster.machines[1]
    region.connect(2, 1)
    assert cluster.execute(1, b"DEBUG SLEEP 1.5".split()) is None
    assert cluster.execute(1, b"PING".split()) is None
    assert cluster.execute(1, b"PING".split(), 2) == b"+PONG\r\n"
    cluster.tick(1_499)
    assert region.pop_reply() is None
    cluster.tick(1)
    assert region.pop_reply() == b"+OK\r\n+PONG\r\n"


@pytest.mark.parametrize("seconds", ["0", "x", "-1", "0.0001"])
def test_no_sleep(region: Region, seconds: str) -> None:
    assert region.line(f"DEBUG SLEEP {seconds}") == OK


@pytest.mark.parametrize("text", ["JMAP", "SLEEP", "SLEEP 1 2", "OBJECT s"])
def test_other_debug_commands(region: Region, text: str) -> None:
    assert (region.line(f"DEBUG {text}") or b"").startswith(b"-ERR DEBUG command not allowed. If the enable-debug-")
    assert region.line("DEBUG") == b"-ERR wrong number of arguments for 'debug' command\r\n"


# Backups


def with_backups(region: Region) -> Config:
    return replace(region.context.settings.config, backup_directory="/backups")


def test_backups_are_off_unless_there_is_a_place_for_them(region: Region) -> None:
    assert region.line("CRDT.BACKUP a") == (
        b"-ERR backups are off: start the region with --backup-directory DIRECTORY, and name a directory below that"
        b" one\r\n"
    )
    region.context.reconfigure(with_backups(region))
    assert region.run("CRDT.BACKUP", b"") == b"-ERR the directory's name must not be empty or contain a zero byte\r\n"
    assert (region.run("CRDT.BACKUP", b"a\0b") or b"").startswith(b"-ERR the directory's name")
    assert not region.context.saving.requested


def test_a_client_waits_for_its_backup(region: Region) -> None:
    region.context.reconfigure(with_backups(region))
    assert region.line("CRDT.BACKUP a") is None
    saving = region.context.saving
    assert saving.requested
    (backup,) = saving.drain_backups()
    assert saving.backups == [] and backup.wanted == b"a"
    end_checkpoint(region)
    assert region.late_replies(region.client) == []
    backup.directory, backup.files, backup.byte_count, backup.position, backup.done = "/backups/a", 2, 30, 4, True
    end_checkpoint(region)
    (reply,) = region.late_replies(region.client)
    assert reply.startswith(b"*8\r\n$9\r\ndirectory\r\n$10\r\n/backups/a\r\n$5\r\nfiles\r\n:2\r\n")
