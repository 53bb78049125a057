"""Charts from Prometheus: a server that is there, and one that is not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from crdtstream.dashboard.prometheus import QUERIES, SPANS, lines_of, read_range
from crdtstream.processes.ports import free_port

ANSWER = {"data": {"result": [{"metric": {"region": "east"}, "values": [[10, "1.5"], [20, "NaN"]]}]}}


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


async def test_nobody_answers() -> None:
    lines, error = await read_range(f"http://127.0.0.1:{free_port()}", "up", 6)
    assert lines == {} and "refused" in error


def test_what_is_no_answer_is_an_error() -> None:
    with pytest.raises(KeyError):
        lines_of({})
    assert all(hours > 1 for hours in SPANS)
