"""Links and their streams: what is queued for a peer that is slow, and what all of them are sent once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crdtstream.replication import wire_pb2 as wire
from crdtstream.runtime.links import link as link_module
from crdtstream.runtime.links.envelope import EnvelopeUnpacker, Frames, size_of
from crdtstream.runtime.links.link import QUEUE_MAX, Link, LinkSettings
from crdtstream.runtime.links.pace import Pace
from crdtstream.runtime.links.pull_schedule import Beat
from tests.runtime.speakers import Speaker, Transports, config, nothing, until

MESSAGE_BYTES = 1 << 18


class Hanging:
    """A stream on which nothing arrives, and writes complete when they are let through."""

    def __init__(self) -> None:
        self.writes: list[wire.Message] = []
        self.free = asyncio.Event()
        self._unpacker = EnvelopeUnpacker(1 << 22)

    async def read(self) -> object:
        return await asyncio.Event().wait()

    async def write(self, envelope: wire.Envelope) -> None:
        await self.free.wait()
        self.writes.append(self._unpacker.unpack(envelope))

    async def done_writing(self) -> None:
        await self.free.wait()

    async def farewell(self) -> str:
        return ""


Failures = list[Exception]


def quick_pace() -> Pace:
    """What many messages that were through at once lead to."""
    pace = Pace(MESSAGE_BYTES, 1_000)
    while pace.message_bytes < MESSAGE_BYTES:
        pace.wrote(MESSAGE_BYTES, 0.0)
    return pace


def linked(speaker: Speaker, failures: Failures, pull: Callable[[], None] = nothing, pace: Pace | None = None) -> Link:
    chosen = pace or quick_pace()
    settings = LinkSettings(
        node=speaker,
        now_ms=lambda: 0,
        schedule_turn=nothing,
        admit=lambda _: True,
        opened=lambda _: None,
        failed=failures.append,
        beat=Beat(0.0, pull),
        frames=Frames(),
        pace_of=lambda _: chosen,
        message_bytes_max=1 << 22,
    )
    return Link(1, True, "", settings, 2)


async def test_a_peer_that_does_not_read_costs_a_short_queue() -> None:
    speaker, stream, failures = Speaker(1), Hanging(), Failures()
    link = linked(speaker, failures)
    running = asyncio.create_task(link.run(stream))
    await until(lambda: speaker.pulls == 1, "the greeting")
    for number in range(20):
        speaker.say(b"%d" % number)
        link.pull()
    assert len(speaker.outbox[1]) == 20 - (QUEUE_MAX - 1), "the greeting is queued too"
    stream.free.set()
    await until(lambda: len(stream.writes) == QUEUE_MAX, "what was queued")
    link.close("the end")
    await running
    assert [list(message.batches.payloads) for message in stream.writes[1:]] == [[b"0"], [b"1"], [b"2"]]
    assert not failures


async def test_large_messages_are_queued_at_one_beat() -> None:
    speaker, stream, failures = Speaker(1), Hanging(), Failures()
    link = linked(speaker, failures, lambda: link.pull())
    stream.free.set()
    running = asyncio.create_task(link.run(stream))
    await until(lambda: len(stream.writes) == 1, "the greeting")
    pulls = speaker.pulls
    for size in (MESSAGE_BYTES, MESSAGE_BYTES // 2, 10, 10):
        speaker.say(bytes(size))
    link.pull()
    assert speaker.pulls == pulls + 3, "the third was small"
    await until(lambda: len(stream.writes) == 5, "everything, because a link that is idle again asks for a beat")
    link.close("the end")
    await running
    assert not failures


class Slow(Hanging):
    """A stream that drains so many bytes per second of the clock of its loop."""

    def __init__(self, bytes_s: int) -> None:
        super().__init__()
        self._bytes_s = bytes_s

    async def write(self, envelope: wire.Envelope) -> None:
        await asyncio.sleep(size_of(envelope) / self._bytes_s)
        self.writes.append(self._unpacker.unpack(envelope))


async def test_a_link_that_drains_slowly_gets_small_messages() -> None:
    """The loop's clock is real, and so fast a link that a message of this size takes long is one of milliseconds."""
    speaker, stream, failures = Speaker(1), Slow(1 << 20), Failures()
    pace = Pace(MESSAGE_BYTES, 100)
    link = linked(speaker, failures, lambda: link.pull(), pace)
    running = asyncio.create_task(link.run(stream))
    await until(lambda: len(stream.writes) == 1, "the greeting")
    for _ in range(3):
        speaker.say(bytes(MESSAGE_BYTES))
    link.pull()
    await until(lambda: len(stream.writes) == 4, "all of it")
    assert link.message_bytes < MESSAGE_BYTES // 4
    link.close("the end")
    await running
    assert not failures


async def test_a_link_that_is_lost_in_a_write_tells_how_long_it_waited() -> None:
    speaker, stream, failures = Speaker(1), Hanging(), Failures()
    link = linked(speaker, failures)
    running = asyncio.create_task(link.run(stream))
    await until(lambda: speaker.pulls == 1, "the greeting")
    clock = asyncio.get_running_loop().time
    began_s = link._writing_s
    assert began_s is not None, "the greeting is not being written"
    await until(lambda: clock() - began_s > 0.002, "a time that is more than a rounding error")
    link.close("the end")
    await running
    assert link.write_ms > 0 and link.silent_ms == 0


async def test_last_words_have_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "LAST_WORDS_S", 0.01)
    speaker, stream, failures = Speaker(1), Hanging(), Failures()
    link = linked(speaker, failures)
    running = asyncio.create_task(link.run(stream))
    await until(lambda: speaker.pulls == 1, "the greeting")
    speaker.outbox[1].append(wire.Message(refused=wire.Refused(reason="no")))
    link.pull()
    assert not link.is_closed, "a refusal is on its way"
    await running
    assert (link.reason, stream.writes, failures) == ("no", [], [])


async def test_a_node_that_fails_when_it_is_pulled_ends_the_link() -> None:
    speaker, stream, failures = Speaker(1), Hanging(), Failures()
    link = linked(speaker, failures)
    running = asyncio.create_task(link.run(stream))
    await until(lambda: speaker.pulls == 1, "the greeting")
    speaker.outbox.clear()
    link.pull()
    await running
    assert isinstance(failures[0], KeyError) and link.reason.startswith("failed: KeyError")


@pytest.mark.parametrize(("protocol", "made"), [(4, 1), (3, 0)])
async def test_what_two_peers_are_sent_is_compressed_once_for_peers_that_read_it(
    transports: Transports, protocol: int, made: int
) -> None:
    east, west, north = Speaker(1), Speaker(2), Speaker(3)
    west.protocol = north.protocol = protocol
    listening = await transports.start(config(1), east)
    for one in (west, north):
        await transports.start(config(one.region, listening.port), one)
    await until(lambda: east.greetings() == 2 and len(listening.linked_regions()) == 2, "the greetings")
    payloads = (bytes(100_000), b"after")
    east.say(*payloads)
    await until(lambda: west.payloads() == north.payloads() == [*payloads], "what is said")
    assert listening.frames.made == made
