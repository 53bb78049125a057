"""When a region traces, what is said where it cannot, and a real one that sends its spans to a collector."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog

from crdtstream.processes.region import regions_in
from crdtstream.processes.waiting import until
from crdtstream.runtime.traces.settings import open_tracing, wants_traces
from crdtstream.settings.config import Config, ConfigError
from tests.tidy import ROOT

CONFIG = Config("east", 1, "c")
WITH_ENDPOINT = Config("east", 1, "c", otel_endpoint="http://127.0.0.1:1")
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
SOON = ("OTEL_BSP_SCHEDULE_DELAY", "50")
needs_otel = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import opentelemetry.exporter.otlp.proto.http"]).returncode != 0,
    reason="the extra otel is not installed",
)


@pytest.mark.parametrize(
    ("config", "environment", "expected"),
    [
        (CONFIG, {}, False),
        (WITH_ENDPOINT, {}, True),
        (WITH_ENDPOINT, {"OTEL_SDK_DISABLED": "true"}, False),
        (CONFIG, ENDPOINT, True),
        (CONFIG, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        (CONFIG, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        (CONFIG, {"OTEL_SERVICE_NAME": "shop"}, False),
        (CONFIG, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_traces_are_off_unless_they_have_somewhere_to_go(
    config: Config, environment: dict[str, str], expected: bool
) -> None:
    assert wants_traces(config, environment) is expected


def test_without_the_extra_the_setting_is_refused_and_variables_earn_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "crdtstream.runtime.traces.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"pip install 'crdtstream\[otel\]', or leave out --otel-endpoint"):
        open_tracing(WITH_ENDPOINT, {})
    with structlog.testing.capture_logs() as told:
        assert open_tracing(CONFIG, ENDPOINT) is None
    assert [(line["event"], line["log_level"]) for line in told] == [("traces-off", "warning")]
    assert open_tracing(CONFIG, {}) is None


def test_the_sdk_is_not_imported_while_traces_are_off() -> None:
    program = (
        "import sys, crdtstream.cli.app as cli; from crdtstream.settings.config import Config;"
        "cli.tracing_of(Config('east', 1, 'c')).__enter__();"
        "sys.exit(bool({'opentelemetry.sdk.trace', 'crdtstream.runtime.traces.tracing'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={"PATH": ""}).returncode == 0


class Collector(ThreadingHTTPServer):
    """Takes spans over OTLP/HTTP; while it is `held` it answers nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[tuple[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.asked = threading.Event()
        self.released = threading.Event()
        self.released.set()


class Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.set()
        self.server.released.wait()
        request = ExportTraceServiceRequest.FromString(body)
        for part in request.resource_spans:
            service = {each.key: each.value.string_value for each in part.resource.attributes}
            self.server.headers.update(service, path=self.path, key=self.headers.get("x-key", ""))
            self.server.spans += [(span.name, span) for scope in part.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@needs_otel
def test_a_region_sends_its_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hush")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop-streams")
    with collector() as server, regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(incarnation=0, otel_endpoint=f"http://127.0.0.1:{server.server_port}")
        region.await_serving()
        region.ask("XADD", "hush-key", "*", "f", "hush-value")
        assert b"hush" not in b"".join(region.ask("CONFIG", "GET", "*"))
        region.stop()
        names = [name for name, _ in server.spans]
        assert "XADD" in names, "a stop sends what is left"
        assert server.headers["path"] == "/v1/traces" and server.headers["key"] == "hush"
        assert (server.headers["service.name"], server.headers["service.instance.id"]) == ("shop-streams", "region1")
        assert "hush" not in region.log() and "hush" not in str(server.spans)


@needs_otel
def test_a_collector_that_hangs_delays_a_stop_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*SOON)
    with collector() as server, regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(incarnation=0, otel_endpoint=f"http://127.0.0.1:{server.server_port}")
        region.await_serving()
        server.released.clear()
        region.ask("XADD", "s", "*", "f", "v")
        until(server.asked.is_set, "spans are on their way")
        region.request_stop()
        assert region.await_end(30) == 0


@needs_otel
def test_a_collector_that_is_down_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*SOON)
    with regions_in(tmp_path) as regions:
        (region,) = regions.make(1)
        region.start(incarnation=0, otel_endpoint="http://127.0.0.1:9")
        region.await_serving()
        region.ask("XADD", "s", "*", "f", "v")
        region.stop()
        assert "event=library-message" in region.log() and "opentelemetry" in region.log()
