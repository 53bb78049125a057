"""Whole calls and replies of a home, as recorded bytes: regions of other releases send and read these."""

from __future__ import annotations

import pytest

from crdtstream.partitions.calls import pack_call, pack_reply, unpack_call, unpack_reply
from tests.partitions.region_streams import Regions

# What is asked, the call, and the reply of a home that has had the calls above.
RECORDED = [
    (
        "put",
        "93a3707574a173929300c0c40566697273749301c4016bc40200ff",
        "93c392930000cd07d1930100cd07d193010601",
    ),
    (
        "join",
        "96a46a6f696ea173a167ac5452494d5f484f52495a4f4e0032",
        "92c39593000100010192010790",
    ),
    (
        "join at a time",
        "96a46a6f696ea173a167a741545f54494d45cf0000018bcfe5680000",
        "92c39593000100010192010790",
    ),
    (
        "poll",
        "97a4706f6c6ca173a167a169cd75309593000100010192010790c3",
        "92c39593000101010192010792920000920100",
    ),
    (
        "heartbeat",
        "96a9686561727462656174a173a167a169cd753095930001010101920107929200009201ff",
        "92c395930001010101920107929200009201ff",
    ),
    (
        "commit",
        "96a6636f6d6d6974a173a167a169cd753095930001010101920107929200009201ff",
        "92c39593000101010192010790",
    ),
    (
        "poll without a commit",
        "97a4706f6c6ca173a167a169cd753095930001010101920107929200009201ffc2",
        "92c39593000101010192010792920001920100",
    ),
    (
        "group",
        "93a567726f7570a173a167",
        "92c392940000a169cd7d019401ffa169cd7d01",
    ),
    (
        "reset",
        "95a57265736574a173a167a741545f54494d45cf0000018bcfe56800",
        "92c3c0",
    ),
    (
        "locate",
        "94a66c6f63617465a1730000",
        "92c3920101",
    ),
    (
        "locate nothing",
        "94a66c6f63617465a1730063",
        "92c3c0",
    ),
    (
        "unknown stream",
        "94a66c6f63617465a56f746865720000",
        "93c2ae756e6b6e6f776e2073747265616db5556e6b6e6f776e2073747265616d206f746865722e",
    ),
    (
        "unknown group",
        "93a567726f7570a173a46e6f6e65",
        "93c2ad756e6b6e6f776e2067726f7570d93b7468652073747265616d20686173206e6f2067726f757020276e6f"
        "6e65273a2063726561746520612067726f757020637572736f72206669727374",
    ),
    (
        "unknown call",
        "96a564616e6365a173a167a1690195930001010101920107929200009201ff",
        "93c2a7696e76616c6964d94774686520686f6d6520726567696f6e20646f6573206e6f74206b6e6f7720746865"
        "2063616c6c202764616e6365273a2069742072756e7320616e6f746865722076657273696f6e",
    ),
]


@pytest.fixture(scope="module")
def replies() -> list[str]:
    """What the home replies now, to one call after the other."""
    streams = Regions(2).streams(1)
    return [pack_reply(streams._serve(bytes.fromhex(call))).hex() for _, call, _ in RECORDED]


@pytest.mark.parametrize("at", range(len(RECORDED)), ids=[name for name, _, _ in RECORDED])
def test_replies_travel_as_they_always_did(replies: list[str], at: int) -> None:
    assert replies[at] == RECORDED[at][2]


@pytest.mark.parametrize(("call", "reply"), [row[1:] for row in RECORDED[:-1]], ids=[row[0] for row in RECORDED[:-1]])
def test_calls_and_replies_are_read_and_written_alike(call: str, reply: str) -> None:
    read = unpack_call(bytes.fromhex(call))
    assert pack_call(read).hex() == call
    assert pack_reply(unpack_reply(bytes.fromhex(reply), read)).hex() == reply
