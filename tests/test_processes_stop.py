"""A clean stop under load: what clients were told is in the other regions before the process ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import redis

from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import until
from tests.region_processes import linked

CLIENTS = 4
VALUE = "v" * 50_000


class Writer(threading.Thread):
    """Adds until the region refuses; `told` are the IDs that it was given, `refusal` is what ended it."""

    def __init__(self, region: RegionProcess) -> None:
        super().__init__(daemon=True)
        self._client = region.client()
        self.told: list[bytes] = []
        self.refusal = ""

    def run(self) -> None:
        with self._client as client:
            while not self.refusal:
                try:
                    self.told.append(client.execute_command("XADD", "x", "*", "f", VALUE))
                except redis.RedisError as error:
                    self.refusal = f"{type(error).__name__}: {error}"


def stop_under_load(region: RegionProcess) -> list[Writer]:
    writers = [Writer(region) for _ in range(CLIENTS)]
    for writer in writers:
        writer.start()
    until(lambda: sum(len(writer.told) for writer in writers) > 200, "clients write")
    assert region.terminate() == 0
    for writer in writers:
        writer.join()
    return writers


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_the_others_have_all_that_clients_were_told(tmp_path: Path, fsync: str) -> None:
    with regions_in(tmp_path) as regions:
        one, two, three = regions.make(1, 2, 3)
        linked(one, two, three, fsync=fsync)
        for region in (one, two, three):
            region.await_links(*{other.name for other in (one, two, three)} - {region.name})
        writers = stop_under_load(one)
        told = sorted(entry for writer in writers for entry in writer.told)
        for region in (two, three):
            region.kill()
        for region, other in ((two, three), (three, two)):
            region.start(other)
            region.await_serving()
        for region in (two, three):
            held = {entry[0] for entry in region.ask("XRANGE", "x", "-", "+")}
            assert not [entry for entry in told if entry not in held], f"{region} lacks some: {one.log_end()}"
        refusals = {writer.refusal.partition(":")[0] for writer in writers}
        assert refusals <= {"ReadOnlyError", "ConnectionError"}, refusals
        assert "handed-over" in one.log()


def test_reads_go_on_while_a_region_hands_over(tmp_path: Path) -> None:
    """The peer is silent, so there is time to look."""
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        linked(one, two)
        one.await_links(two.name)
        one.ask("CONFIG", "SET", "stop-handover-ms-max", "60000")
        one.ask("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
        regions.await_agreement(one, two)
        two.signal(19)
        try:
            one.ask("XADD", "x", "*", "f", "v")
            one.ask("XREADGROUP", "GROUP", "g", "me", "STREAMS", "x", ">")
            waiting = one.connect()
            refusals: list[str] = []

            def wait() -> None:
                try:
                    waiting.execute_command("XREADGROUP", "GROUP", "g", "me", "BLOCK", "0", "STREAMS", "x", ">")
                except redis.RedisError as error:
                    refusals.append(str(error))

            reader = threading.Thread(target=wait, daemon=True)
            reader.start()
            until(lambda: "blocked_clients:1" in one.ask("INFO", "clients").decode(), "a client waits")
            one.request_stop()
            reader.join()
            assert "is stopping and takes no writes" in refusals[0]
            with pytest.raises(redis.exceptions.ReadOnlyError, match="use another region"):
                one.ask("XADD", "x", "*", "f", "v")
            assert one.ask("XLEN", "x") == 1
            one.request_stop()
            assert one.await_end() == 0
        finally:
            two.signal(18)


def test_a_region_that_nobody_lacks_anything_of_stops_at_once(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        linked(one, two)
        one.await_links(two.name)
        one.ask("XADD", "x", "*", "f", "v")
        regions.await_agreement(one, two)
        until(lambda: b",lag=0," in one.ask("INFO", "replication"), "the peer has said so")
        began_s = time.monotonic()
        assert one.terminate() == 0
        assert time.monotonic() - began_s < 20.0
        assert "handed-over" not in one.log()
