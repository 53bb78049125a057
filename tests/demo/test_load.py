"""The workload: what is sent is drawn from a seed, and trouble is reported once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from crdtstream.demo.load import ORDERS, PAYMENTS, Worker, entries, groups_of, run_load
from crdtstream.observing.access import Access
from crdtstream.processes.ports import HOST, free_port
from crdtstream.processes.region import regions_in
from crdtstream.processes.waiting import until


def test_a_seed_gives_each_region_its_own_sequence() -> None:
    first = list(islice(entries(1, 0), 20))
    assert first == list(islice(entries(1, 0), 20))
    assert first != list(islice(entries(1, 1), 20)) and first != list(islice(entries(2, 0), 20))
    assert [words[1] for words in first[:6]] == [ORDERS, ORDERS, PAYMENTS] * 2


def test_one_group_is_read_everywhere_and_one_in_the_first_region() -> None:
    assert [group for _, group in groups_of(0)] == ["shipping", "audit"]
    assert [group for _, group in groups_of(1)] == ["shipping"]


def test_what_is_no_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_load(["east"], 1, 5) == 2
    assert "'east' must be HOST:PORT" in capsys.readouterr().err


async def test_trouble_is_reported_once() -> None:
    told: list[str] = []
    worker = Worker(f"{HOST}:{free_port()}", 0, 1, Access(), told.append)
    running = asyncio.create_task(worker.run(100))
    while not told:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.wait([running])
    assert len(told) == 1 and "refused" in told[0]


def test_regions_under_load_take_entries_and_read_their_groups(tmp_path: Path) -> None:
    with regions_in(tmp_path) as cluster:
        one, other = cluster.make(1, 2)
        one.start(other)
        other.start(one)
        one.await_serving()
        other.await_serving()
        nodes = [word for region in (one, other) for word in ("--node", f"{HOST}:{region.port}")]
        command = [sys.executable, "-m", "crdtstream", "demo", "--load", "--rate", "50", *nodes]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                until(lambda: one.ask("XLEN", ORDERS) > 20, lambda: "entries of both regions arrive")
                until(lambda: len(one.ask("XINFO", "GROUPS", PAYMENTS)) == 1, lambda: "the first region reads payments")
            finally:
                process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert process.stdout is not None
            assert "takes adds, and its groups are read" in process.stdout.read()
        written = {
            dict(zip(fields[::2], fields[1::2], strict=True))[b"region"]
            for _, fields in one.ask("XRANGE", ORDERS, "-", "+")
        }
        assert written == {b"0", b"1"}
        (shipping,) = one.ask("XINFO", "GROUPS", ORDERS)
        assert shipping[shipping.index(b"entries-read") + 1] > 0
