"""CRDT.HOMES and CRDT.TAKEOVER on simulated regions."""

from __future__ import annotations

from tests.partitions.region_streams import STREAM, Regions


def ask(regions: Regions, number: int, *words: bytes) -> bytes:
    reply = regions.execute(number, list(words))
    assert reply is not None
    return reply


def test_homes_are_listed_and_moved() -> None:
    regions = Regions(2)
    assert ask(regions, 2, b"CRDT.HOMES") == (
        b"*1\r\n*8\r\n$6\r\nstream\r\n$1\r\ns\r\n$10\r\npartitions\r\n:2\r\n$4\r\nhome\r\n:1\r\n$5\r\nepoch\r\n:1\r\n"
    )
    assert ask(regions, 2, b"CRDT.TAKEOVER", STREAM.encode()) == b"+OK\r\n"
    regions.sync()
    for number in (1, 2):
        assert b"home\r\n:2\r\n$5\r\nepoch\r\n:2\r\n" in ask(regions, number, b"CRDT.HOMES")


def test_an_unknown_stream_is_refused() -> None:
    regions = Regions()
    assert ask(regions, 1, b"CRDT.TAKEOVER", b"x\xff") == "-ERR Unknown stream x\ufffd.\r\n".encode()
