"""What a full disk still takes."""

from __future__ import annotations

from crdtstream.status.availability import DISK_FULL, OOM, TICK_BYTES, Standing


def full(removal_bytes: int, member_bytes: int) -> Standing:
    standing = Standing()
    standing.writable, standing.removal_bytes, standing.member_bytes = False, removal_bytes, member_bytes
    return standing


def test_with_room_everything_may_be_written() -> None:
    standing = Standing()
    assert standing.may_remove() and standing.may_change_members()
    assert standing.spend_removal(1 << 40) and standing.spend_members(1 << 40)


def test_a_tick_needs_its_room_and_takes_none() -> None:
    assert not full(TICK_BYTES - 1, TICK_BYTES).may_remove()
    standing = full(TICK_BYTES - 1, TICK_BYTES)
    assert standing.may_change_members() and standing.may_change_members()
    assert not full(0, TICK_BYTES - 1).may_change_members()


def test_commands_take_their_parts_until_nothing_is_left() -> None:
    standing = full(1_000, 3_000)
    assert standing.spend_removal(600) and not standing.spend_removal(600)
    assert (standing.removal_bytes, standing.member_bytes) == (400, 2_400)
    assert standing.spend_members(2_000)
    assert not standing.spend_removal(1), "both share the room"
    assert standing.spend_members(400) and not standing.spend_members(1)


def test_the_reserve_excuses_from_the_disk_alone() -> None:
    standing = full(0, 0)
    assert standing.refusal(True, False) == DISK_FULL
    assert standing.refusal(True, False, reserved=True) == ""
    standing.departing = "leaves"
    assert standing.refusal(True, False, reserved=True) == "READONLY leaves"
    standing.memory_short = True
    assert standing.refusal(True, True, reserved=True) == OOM
    assert standing.refusal(True, False, reserved=True) != OOM
