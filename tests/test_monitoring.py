"""deploy/prometheus and deploy/grafana against what they are about: real regions, scraped by a real Prometheus.

Every query of the dashboard has data, every rule is evaluated on metrics that exist, and rules fire when a region is
gone. Promtool runs the tests of the rules, and is shown that they can fail.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.processes.launching import Launcher
from crdtstream.processes.ports import free_port
from crdtstream.processes.region import RegionProcess, regions_in
from crdtstream.processes.waiting import DEADLINE_S, until
from tests.runtime.speakers import certificate, needs_openssl
from tests.tidy import ROOT

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus"
DASHBOARD = json.loads((DEPLOY / "grafana" / "crdtstream.json").read_text(encoding="utf-8"))
STOP_S = 30.0

needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus")


def promtool(*words: str, directory: Path = RULES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], cwd=directory, capture_output=True, text=True, timeout=120)


@needs_promtool
@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "alerts.yml"),
        ("check", "config", "prometheus.yml"),
        ("check", "config", "compose.yml"),
        ("test", "rules", "alerts_test.yml"),
    ],
)
def test_promtool_accepts(words: tuple[str, ...]) -> None:
    checked = promtool(*words)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def rules() -> list[str]:
    return re.findall(r"- alert: (\w+)", (RULES / "alerts.yml").read_text(encoding="utf-8"))


@needs_promtool
def test_each_rule_has_a_test_that_can_fail(tmp_path: Path) -> None:
    """With conditions that never hold, the test of every rule fails."""
    text = (RULES / "alerts.yml").read_text(encoding="utf-8")
    never = "          and on () (vector(0) > 1)\n"
    spoiled, count = re.subn(r"(expr: >-\n)((?: {10}.*\n)+)", rf"\1          (\n\2          )\n{never}", text)
    assert count == len(rules())
    (tmp_path / "alerts.yml").write_text(spoiled, encoding="utf-8")
    shutil.copy(RULES / "alerts_test.yml", tmp_path)
    checked = promtool("test", "rules", "alerts_test.yml", directory=tmp_path)
    assert checked.returncode != 0
    failed = re.findall(r"alertname: ?(\w+)", checked.stdout + checked.stderr)
    assert {*failed} == {*rules()}, checked.stdout + checked.stderr


class Prometheus:
    """The server, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        url = f"{self.base}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def values(self, query: str) -> list[float]:
        """The numbers that a query returns now."""
        return [float(row["value"][1]) for row in self.get("/api/v1/query", query=query)["result"]]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base}/-/ready", timeout=DEADLINE_S):
                return True
        except OSError:
            return False


@contextmanager
def prometheus(directory: Path, ports: list[int], guard: str = "") -> Iterator[Prometheus]:
    """A Prometheus with the committed configuration, at these ports, at short intervals; `guard`: lines of the job."""
    text = (RULES / "prometheus.yml").read_text(encoding="utf-8").replace(": 15s", ": 200ms")
    text = text.replace("    static_configs:\n", f"{guard}    static_configs:\n")
    for at, port in enumerate(ports):
        text = text.replace(f"127.0.0.1:{9121 + at}", f"127.0.0.1:{port}")
    (directory / "prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(RULES / "alerts.yml", directory)
    port = free_port()
    arguments = [
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = Launcher(("prometheus",), directory=directory).launch(arguments, directory / "prometheus.log")
    server = Prometheus(port)
    try:
        until(server.is_ready, "Prometheus is ready")
        yield server
    finally:
        process.send_signal(15)
        process.wait(STOP_S)


def work(region: RegionProcess) -> None:
    """Something of everything that is shown as a rate."""
    for number in range(5):
        region.ask("XADD", f"stream-{number}", "*", "item", "book")
    region.ask("XRANGE", "stream-0", "-", "+", "COUNT", "1")
    region.ask("XLEN", "nothing")
    region.ask("XREADGROUP", "GROUP", "readers", "one", "COUNT", "1", "STREAMS", "stream-0", ">")
    with pytest.raises(redis.ResponseError):
        region.ask("XADD", "stream-0", "not an ID", "item", "book")


def queries() -> dict[str, str]:
    """The queries of the dashboard, with its variables filled in, by panel and letter."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$cluster", ".*").replace("$region", ".*").replace("$shard", ".*")
            found[f"{panel['title']} {target['refId']}"] = text.replace("$__rate_interval", "10s")
    assert len(found) > 50 and not any("$" in text for text in found.values())
    return found


def without_data(server: Prometheus, asked: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in asked.items() if not any(map(math.isfinite, server.values(text)))}


def missing_metrics(server: Prometheus, expressions: list[str]) -> set[str]:
    names = {name for text in expressions for name in re.findall(r"crdtstream_\w+", text)}
    return {name for name in names if not server.values(f"count({name})")}


@needs_prometheus
@needs_openssl
def test_a_real_prometheus_has_data_for_every_query(tmp_path: Path) -> None:
    certificate(tmp_path, "own", None)
    tls = {"tls_cert_file": tmp_path / "own.pem", "tls_key_file": tmp_path / "own.key", "tls_auth_clients": "no"}
    with regions_in(tmp_path) as regions:
        east, _, north = three = regions.make(1, 2, 3, bulk=True)
        ports = [free_port() for _ in three]
        for region, port in zip(three, ports, strict=True):
            others = [peer for peer in three if peer is not region]
            region.start(*others, incarnation=0, http_port=port, tls_port=free_port(), **tls)
        for region in three:
            region.await_serving()
        east.create_group("stream-0", "readers")
        assert east.ask("SAVE") == b"OK"
        with prometheus(tmp_path, ports) as server:
            until(lambda: server.values("sum(crdtstream_peer_linked)") == [6.0], "all six links are scraped")
            until(lambda: server.values("sum(crdtstream_serving)") == [3.0], "all serve")
            check_variables(server)
            north.kill()
            check_queries(server, east)
            check_rules(server)


@needs_prometheus
@needs_openssl
def test_prometheus_scrapes_a_guarded_port(tmp_path: Path) -> None:
    """As docs/operations.md says: TLS with another name than the address, and the token from its file."""
    certificate(tmp_path, "authority", None)
    certificate(tmp_path, "east", "authority", 1)
    (tmp_path / "token").write_text("token-of-the-monitoring\n")
    files = {"tls_cert_file": tmp_path / "east.pem", "tls_key_file": tmp_path / "east.key"}
    guard = (
        "    scheme: https\n"
        f"    authorization: {{credentials_file: {tmp_path / 'token'}}}\n"
        f"    tls_config: {{ca_file: {tmp_path / 'authority.pem'}, server_name: region-1}}\n"
    )
    with regions_in(tmp_path) as regions:
        (east,) = regions.make(1)
        port = free_port()
        east.start(incarnation=0, http_port=port, http_tls=True, http_token_file=tmp_path / "token", **files)
        east.await_serving()
        with prometheus(tmp_path, [port], guard) as server:
            until(lambda: server.values("crdtstream_serving") == [1.0], "it is scraped")


def check_variables(server: Prometheus) -> None:
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] != "query":
            continue
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
        assert found is not None
        metric, label = found[1].replace("$cluster", ".*").replace("$region", ".*"), found[2]
        rows = server.get("/api/v1/query", query=f"count by ({label}) ({metric})")["result"]
        # Regions of one shard have no label for it.
        assert {row["metric"].get(label) for row in rows} in ({"shop"}, {"east", "west", "north"}, {None})


def check_queries(server: Prometheus, region: RegionProcess) -> None:
    """Go on working until all have data; some need two scrapes of a change."""
    left = queries()

    def answered() -> bool:
        nonlocal left
        work(region)
        left = without_data(server, left)
        return not left

    until(answered, lambda: f"every query has data, these have none: {left}")


def check_rules(server: Prometheus) -> None:
    def told() -> list[dict[str, Any]]:
        return [rule for group in server.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def states() -> dict[str, tuple[str, str]]:
        return {rule["name"]: (rule["health"], rule["state"]) for rule in told()}

    def evaluated() -> bool:
        known = states()
        noticed = all(known[name][1] in ("pending", "firing") for name in ("RegionDown", "PeerUnlinked"))
        return noticed and {health for health, _ in known.values()} == {"ok"}

    until(evaluated, lambda: f"every rule is evaluated, and two have noticed: {states()}")
    assert [*states()] == rules()
    assert missing_metrics(server, [rule["query"] for rule in told()]) == set()
    assert states()["StateDiffers"][1] == states()["WritesRefused"][1] == states()["ProgramFault"][1] == "inactive"
