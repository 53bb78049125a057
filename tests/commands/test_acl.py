"""ACL where it needs the runtime: a file, and random numbers."""

from __future__ import annotations

from pathlib import Path

from crdtstream.runtime.acl_file import perform
from crdtstream.settings.config import Limits
from tests.commands.harness import Region


def with_file(path: Path) -> Region:
    region = Region()
    region.configure(aclfile=str(path))
    return region


def answer(region: Region, line: str, path: Path) -> list[bytes]:
    assert region.line(line) is None
    perform(region.context.requests.acl.pop(), str(path))
    for waiter in region.context.parking.keyless():
        region.serve(waiter)
    return region.late_replies(region.client)


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    region = with_file(path)
    region.line("ACL SETUSER b on >x +@read ~a (+xadd ~b)")
    assert answer(region, "ACL SAVE", path) == [b"+OK\r\n"]
    assert list(tmp_path.iterdir()) == [path]
    region.line("ACL SETUSER c")
    region.line("ACL SETUSER b reset")
    before = path.read_text()
    assert answer(region, "ACL LOAD", path) == [b"+OK\r\n"]
    assert region.context.users.text().decode() == before
    assert region.context.users.get(b"c") is None


def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    region = with_file(tmp_path / "gone")
    (refusal,) = answer(region, "ACL LOAD", tmp_path / "gone")
    assert refusal.startswith(b"-ERR Error loading ACLs, opening file '") and b"No such file" in refusal
    (refusal,) = answer(region, "ACL SAVE", tmp_path / "gone" / "users.acl")
    assert refusal.startswith(b"-ERR There was an error trying to save the ACLs")


def test_without_a_file() -> None:
    region = Region()
    for line in ("ACL SAVE", "ACL LOAD"):
        assert (region.line(line) or b"").startswith(b"-ERR This region is not configured to use an ACL file.")


def test_passwords_come_from_the_random_source_of_the_process() -> None:
    region = Region()
    assert region.line("ACL GENPASS") == b"-ERR this region has no source of random numbers\r\n"
    region.context.random_bytes = lambda count: b"\x12\xef" * (count // 2) + b"\x34" * (count % 2)
    assert region.line("ACL GENPASS") == b"$64\r\n" + b"12ef" * 16 + b"\r\n"
    assert region.line("ACL GENPASS 5") == b"$2\r\n34\r\n"
    assert region.line("ACL GENPASS 1") == b"$1\r\n3\r\n"


def test_a_user_needs_a_name() -> None:
    assert (Region().run("ACL", "SETUSER", "") or b"").startswith(b"-ERR a username must not be empty")


def test_rules_are_in_no_log() -> None:
    region = Region()
    region.configure(limits=Limits(slow_command_us=0, auth_failure_delay_ms=0))
    monitor = region.connect()
    region.line("MONITOR", client=monitor)
    for line in ("ACL SETUSER b >secret", "ACL GETUSER secret", "ACL DELUSER secret", "AUTH b secret"):
        region.line(line)
    assert b"secret" not in (region.line("SLOWLOG GET 10") or b"")
    assert b"secret" not in region.messages(monitor)


def test_a_category_has_the_commands_that_tell_it() -> None:
    region = Region()
    listed = region.line("ACL CAT stream") or b""
    assert b"\r\nxadd\r\n" in listed and b"\r\nxgroup|create\r\n" in listed and b"ping" not in listed
