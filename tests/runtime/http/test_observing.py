"""`/healthz`, `/readyz` and `/metrics` of a region in this process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from crdtstream.processes.ports import free_port
from crdtstream.settings.config import Limits
from tests.running_region import DEADLINE_S, Running, config_of, running, until
from tests.runtime.metrics.scraped import Scraped


async def get(region: Running, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", region.loop.config.http_port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE_S):
        answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


async def test_a_region_that_serves(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port(), bulk_port=0, fsync="always")) as region:
        wire = await region.connect()
        await wire.ask("XADD", "x", "*", "f", "v")
        assert await get(region, "/healthz") == (200, "healthy\n")
        assert await get(region, "/readyz") == (200, "ready\n")
        status, text = await get(region, "/metrics")
        found = Scraped(text)
        assert status == 200 and found.value("serving") == 1
        assert found.value("stream_length", db="0", stream="x") == 1
        assert found.value("command_duration_seconds_count", command="xadd") == 1
        assert found.value("log_sync_duration_seconds_count") >= 1
        assert found.value("log_append_duration_seconds_count") >= 1
        assert found.value("bulk_calls_running") == 0
        await until(lambda: sum(region.loop.meters.loop_lag.counts) > 0, "a tick")


async def test_the_front_page_links_to_the_dashboard(tmp_path: Path) -> None:
    address = "https://board/?a&b"
    async with running(config_of(tmp_path, http_port=free_port(), dashboard_url=address)) as region:
        status, page = await get(region, "/")
    assert status == 200
    for link in ("/metrics", "/healthz", "/readyz", "/readyz?writes", "https://board/?a&amp;b"):
        assert f'<a href="{link}">' in page


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool checks what is scraped")
async def test_promtool_finds_nothing_to_criticise(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port(), peers=("127.0.0.1:1",), bulk_port=0)) as region:
        wire = await region.connect()
        await wire.ask("XADD", "x", "*", "f", "v")
        _, text = await get(region, "/metrics")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, timeout=60)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


async def test_one_that_does_not_serve_says_why(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port())) as region:
        node = region.loop.node
        loading, node.standing.loading = node.standing.loading, "the peers are not known yet"
        assert await get(region, "/readyz") == (503, "the peers are not known yet\n")
        assert (await get(region, "/healthz"))[0] == 200
        node.standing.loading = loading


async def test_who_writes_is_told_why_not_to_come(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port())) as region:
        node = region.loop.node
        standing, path = node.standing, "/readyz?writes"
        await until(lambda: node.membership.admitted, "the admission")
        assert await get(region, path) == (200, "ready\n")
        standing.memory_short = True
        assert (await get(region, path))[1].startswith("the process uses more memory than memory_bytes_max")
        node.writable(False)
        assert (await get(region, path))[1].startswith("The disk is full")
        for asked in ("/readyz?writes=1", "/readyz?writes&x", "/readyz?x=1&writes"):
            assert (await get(region, asked))[0] == 503
        assert await get(region, "/readyz") == (200, "ready\n"), "reads go on"
        standing.departing = "the region leaves"
        assert await get(region, path) == (503, "the region leaves\n")
        loading, standing.loading = standing.loading, "the peers are not known yet"
        assert await get(region, path) == (503, "the peers are not known yet\n")
        standing.loading, standing.departing, standing.memory_short = loading, "", False
        node.writable(True)
        node.membership.own.lapse()
        assert (await get(region, path))[1].startswith("this region has started as a new origin")
        assert await get(region, "/readyz") == (200, "ready\n")


async def test_a_sync_that_hangs_is_not_healthy(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port(), fsync="no")) as region:
        region.loop.meters.sync_began_s = -1e9
        status, text = await get(region, "/healthz")
        assert status == 503 and "a sync of the log has been running for" in text


async def test_one_that_stops_is_not_ready(tmp_path: Path) -> None:
    limits = Limits(stop_checkpoint_log_bytes=0)
    async with running(config_of(tmp_path, limits, http_port=free_port())) as region:
        wire = await region.connect()
        await wire.ask("XADD", "x", "*", "f", "v")
        observing = region.loop._observing
        assert observing is not None
        region.loop.stop()
        assert (await observing.readiness()).status == 503


async def test_series_follow_the_setting(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, http_port=free_port())) as region:
        wire = await region.connect()
        for number in range(10):
            await wire.ask("XADD", f"x{number}", "*", "f", "v")
            await wire.line()
        assert await wire.ask("CONFIG", "SET", "metrics-series-max", "8") == b"+OK\r\n"
        found = Scraped((await get(region, "/metrics"))[1])
        assert len(found.labels("stream_length")) == 2 and found.value("omitted_streams") == 8
