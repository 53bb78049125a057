"""The load generator: what it builds, and that it sends a step only when the reply to the last is complete."""

from __future__ import annotations

import random
import re
import socket
import threading
import time

import pytest

from benchmarks.load.driver import Talker, append_steps, fields, run
from benchmarks.load.loads import Appends


class Echo:
    """Answers each byte with two, in two pieces, and remembers the requests it saw. A context."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Echo:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        with peer:
            while data := peer.recv(1 << 16):
                self.requests.append(data)
                for _ in range(2):
                    peer.sendall(b"\n" * len(data))


@pytest.mark.parametrize("by_lines", [False, True])
def test_a_step_waits_for_the_reply_to_the_last(by_lines: bool) -> None:
    with Echo() as echo:
        talker = Talker(echo.port, [(b"a", 2), (b"bcd", 6), (b"e", 2)])
        run([talker], by_lines, 0.0)
        talker.socket.close()
    assert echo.requests == [b"a", b"bcd", b"e"]


def test_an_interval_is_kept() -> None:
    with Echo() as echo:
        talker = Talker(echo.port, [(b"a", 2)] * 5)
        began_s = time.monotonic()
        run([talker], True, 0.02)
        assert time.monotonic() - began_s >= 0.08
        talker.socket.close()


def test_more_than_was_expected_is_a_failure() -> None:
    with Echo() as echo:
        talker = Talker(echo.port, [(b"abc", 5)])
        with pytest.raises(ConnectionError, match="unexpected"):
            run([talker], False, 0.0)
        talker.socket.close()


def test_appends_are_cut_into_pipelines() -> None:
    steps = append_steps(Appends([1], ["k"], count=10, depth=4), "k", seed=1)
    assert [request.count(b"XADD") for request, _ in steps] == [4, 4, 2]
    assert [lines for _, lines in steps] == [8, 8, 4]


def test_a_pipeline_may_have_a_given_millisecond() -> None:
    steps = append_steps(Appends([1], ["k"], count=3, depth=2, first_ms=50), "k", seed=1)
    assert re.findall(rb"(5\d-\*)", b"".join(request for request, _ in steps)) == [b"50-*", b"50-*", b"51-*"]


@pytest.mark.parametrize(("shape", "value_bytes"), [("16-byte", 16), ("1-KiB", 1024)])
def test_values_have_their_length_and_differ(shape: str, value_bytes: int) -> None:
    generator = random.Random(1)
    values = [fields(shape, generator)[1] for _ in range(3)]
    assert {len(value) for value in values} == {value_bytes}
    assert len(set(values)) == 3


def test_a_sensor_has_four_fields() -> None:
    assert fields("sensor", random.Random(1))[::2] == ["temperature", "humidity", "pressure", "battery"]


def test_a_later_piece_of_a_reply_may_look_like_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        talker = Talker(server.getsockname()[1], [(b"a", 4)])
        far, _ = server.accept()
        with far, talker.socket:
            talker.send()
            far.sendall(b"$1")
            assert not talker.receive(by_lines=False)
            far.sendall(b"-1")
            assert talker.receive(by_lines=False)
