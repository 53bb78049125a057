"""Charts and alerts from Prometheus: a server that is there, and one that is not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar
from unittest.mock import AsyncMock
from urllib.parse import parse_qs, urlsplit

import pytest

from crdtstream.dashboard import board as board_module
from crdtstream.dashboard.alerts import Alert
from crdtstream.dashboard.board import Board
from crdtstream.dashboard.prometheus import QUERIES, SPANS, alerts_of, lines_of, read_alerts, read_range
from crdtstream.dashboard.watching import Picture
from crdtstream.observing.access import Access
from crdtstream.processes.ports import free_port

ANSWER: dict[str, Any] = {"data": {"result": [{"metric": {"region": "east"}, "values": [[10, "1.5"], [20, "NaN"]]}]}}


class Handler(BaseHTTPRequestHandler):
    asked: ClassVar[list[dict[str, list[str]]]] = []

    def do_GET(self) -> None:
        self.asked.append(parse_qs(urlsplit(self.path).query))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def test_a_range_is_read(url: str) -> None:
    lines, error = await read_range(url, QUERIES[2][1], 24)
    assert (lines, error) == ({"east": [(10.0, 1.5), (20.0, None)]}, "")
    assert "[288s]" in Handler.asked[-1]["query"][0] and Handler.asked[-1]["step"] == ["288"]


def firing(rule: str, cluster: str = "shop", state: str = "firing") -> dict[str, object]:
    labels = {"alertname": rule, "severity": "warning", "cluster": cluster}
    return {"labels": labels, "annotations": {"summary": f"{rule} of {cluster}"}, "state": state}


def test_only_what_the_dashboard_does_not_know_itself_is_taken() -> None:
    rows = [firing("LoopLate"), firing("LoopLate", "bank"), firing("SyncsSlow", state="pending"), firing("PeerLags")]
    assert alerts_of({"data": {"alerts": rows}}, "shop") == [Alert("LoopLate", "warning", "LoopLate of shop")]


async def test_alerts_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWER["data"], "alerts", [firing("ProgramFault")])
    assert await read_alerts(url, "shop") == ([Alert("ProgramFault", "warning", "ProgramFault of shop")], "")
    strange: Any
    for strange in ([{}], 7, [{"state": "firing", "labels": []}]):
        monkeypatch.setitem(ANSWER["data"], "alerts", strange)
        found, error = await read_alerts(url, "shop")
        assert found == [] and error.startswith("its answer is not that of Prometheus (")


async def test_the_board_shows_them_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Alert("LoopLate", "warning", "east answers late")
    down = Alert("RegionDown", "critical", "west does not answer")
    monkeypatch.setattr(board_module, "read_alerts", AsyncMock(return_value=([late], "")))
    board = Board(["127.0.0.1:1"], Access(), prometheus="http://p:9090")
    board.watch.picture = Picture(alerts=(down,))
    asking = asyncio.create_task(board._ask_prometheus())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    assert (board.alerts(), board.prometheus_error) == ([down, late], "")


async def test_nobody_answers() -> None:
    assert "refused" in (await read_alerts(f"http://127.0.0.1:{free_port()}", "shop"))[1]
    lines, error = await read_range(f"http://127.0.0.1:{free_port()}", "up", 6)
    assert lines == {} and "refused" in error


def test_what_is_no_answer_is_an_error() -> None:
    with pytest.raises(KeyError):
        lines_of({})
    assert all(hours > 1 for hours in SPANS)
