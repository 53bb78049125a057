"""deploy/kubernetes and deploy/helm, without a cluster: what is committed is made, is valid, and starts regions."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import kubernetes_validate
import pytest
import yaml

from crdtstream.settings.config import Limits
from crdtstream.settings.sharding import here, validate_shards
from crdtstream.settings.sources import Sources
from crdtstream.supervisor.founding import places_of

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "crdtstream"
SCRIPT = runpy.run_path(str(DEPLOY / "kubernetes" / "make"))
REGIONS: dict[str, int] = SCRIPT["REGIONS"]
RELEASE = "1.33.0"
WITH_GO = pytest.mark.skipif(
    shutil.which("go") is None, reason="Go, in which helm's templates are written, renders them"
)
KINDS = {"ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"}


def loaded(path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load(path.read_text())
    return manifest


def base() -> list[dict[str, Any]]:
    folder = DEPLOY / "kubernetes" / "base"
    return [loaded(folder / name) for name in loaded(folder / "kustomization.yaml")["resources"]]


def config_map() -> dict[str, str]:
    found: dict[str, str] = next(row for row in base() if row["kind"] == "ConfigMap")["data"]
    return found


def stateful_set() -> dict[str, Any]:
    return next(row for row in base() if row["kind"] == "StatefulSet")


def overlay(name: str) -> dict[str, Any]:
    return loaded(DEPLOY / "kubernetes" / "overlays" / name / "kustomization.yaml")


def patch_of(name: str) -> dict[str, str]:
    patched: dict[str, str] = yaml.safe_load(overlay(name)["patches"][0]["patch"])["data"]
    return patched


def test_what_is_committed_is_what_the_script_makes() -> None:
    made: dict[str, str] = SCRIPT["made"]()
    assert {name: (DEPLOY / name).read_text() for name in made} == made
    folders = (DEPLOY / "kubernetes" / "base", DEPLOY / "kubernetes" / "monitoring", CHART)
    found = {str(path.relative_to(DEPLOY)) for folder in folders for path in folder.rglob("*.yaml")}
    assert found <= set(made)


def test_every_manifest_is_valid() -> None:
    assert {row["kind"] for row in base()} == KINDS
    for manifest in base():
        kubernetes_validate.validate(manifest, RELEASE, strict=True)


@pytest.mark.parametrize("name", REGIONS)
def test_the_settings_of_every_region_are_valid(name: str) -> None:
    container = stateful_set()["spec"]["template"]["spec"]["containers"][0]
    environment = config_map() | {row["name"]: row["value"] for row in container["env"]} | patch_of(name)
    config = Sources(None, {}, environment).load()
    assert (config.name, config.region) == (name, REGIONS[name])
    assert config.discover_peers and overlay(name)["namespace"] in config.announce_host
    ports = {row["name"]: row["containerPort"] for row in container["ports"]}
    assert ports == {"redis": config.port, "replication": config.replication_port, "http": config.http_port}
    # Each names another region, at the address that this one announces.
    [peer] = config.peers
    hosts = {patch_of(other)["CRDTSTREAM_ANNOUNCE_HOST"] for other in REGIONS if other != name}
    assert peer.rpartition(":")[0] in hosts


def test_a_new_region_is_found_by_its_peers_before_it_is_ready() -> None:
    name = stateful_set()["spec"]["serviceName"]
    [service] = [row for row in base() if row["kind"] == "Service" and row["metadata"]["name"] == name]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True


def test_a_region_is_killed_only_after_it_would_have_stopped() -> None:
    pod = stateful_set()["spec"]["template"]["spec"]
    limits = Limits()
    assert pod["terminationGracePeriodSeconds"] * 1000 > limits.stop_checkpoint_ms_max + limits.stop_handover_ms_max


@WITH_GO
def test_the_chart_with_its_values_is_the_base() -> None:
    folder = DEPLOY / "kubernetes"
    assert in_order(rendered(monitor=True)) == in_order([*base(), loaded(folder / "monitoring" / "monitor.yaml")])
    assert in_order(rendered()) == in_order(base())


@WITH_GO
def test_every_manifest_of_three_shards_is_valid() -> None:
    manifests = rendered(shards=3)
    assert {row["kind"] for row in manifests} == KINDS
    for manifest in manifests:
        kubernetes_validate.validate(manifest, RELEASE, strict=True)
    [pods] = [row["spec"] for row in manifests if row["kind"] == "StatefulSet"]
    assert (pods["replicas"], pods["podManagementPolicy"]) == (3, "Parallel")
    clients = [row["spec"] for row in manifests if row["metadata"]["name"].startswith("crdtstream-clients")]
    assert [row["ports"][0]["port"] for row in clients] == [6379, 6380, 6381]
    assert [row["selector"] for row in clients] == [
        {"statefulset.kubernetes.io/pod-name": f"crdtstream-{shard}"} for shard in range(3)
    ]


@WITH_GO
def test_each_pod_runs_its_shard_and_knows_where_the_others_are() -> None:
    manifests = rendered(shards=3)
    configs = [Sources(None, {}, environment_of(manifests, shard)).load() for shard in range(3)]
    for shard, config in enumerate(configs):
        validate_shards(config)
        assert (config.shards, here(config)) == (3, [shard])
    [places] = {places_of(config) for config in configs}
    domain = "crdtstream.crdtstream-east.svc.cluster.local"
    assert [(place.host, place.port, place.replication) for place in places] == [
        (f"crdtstream-{shard}.{domain}", 6379 + shard, f"crdtstream-{shard}.{domain}:{16379 + shard}")
        for shard in range(3)
    ]
    [policy] = [row["spec"] for row in manifests if row["kind"] == "NetworkPolicy"]
    ranges = [port for rule in policy["ingress"] for port in rule["ports"]]
    assert [(row["port"], row["endPort"]) for row in ranges] == [(6379, 6381), (16379, 16381), (9121, 9123)]


@WITH_GO
@pytest.mark.parametrize(("probe", "page"), [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")])
def test_a_probe_of_several_shards_asks_the_port_of_its_own(probe: str, page: str) -> None:
    command = container_of(rendered(shards=3))[probe]["exec"]["command"]
    asked = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(503 if len(asked) > 1 else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "CRDTSTREAM_SHARD": str(server.server_port - 9121)}
        codes = [subprocess.run([sys.executable, *command[1:]], env=environment).returncode for _ in range(2)]
        server.shutdown()
    assert (codes, asked) == ([0, 1], [page, page])


def container_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    [pods] = [row["spec"]["template"]["spec"] for row in manifests if row["kind"] == "StatefulSet"]
    container: dict[str, Any] = pods["containers"][0]
    return container


def environment_of(manifests: list[dict[str, Any]], shard: int) -> dict[str, str]:
    """What the container of this pod gets."""
    of_pod = {"metadata.name": f"crdtstream-{shard}", "metadata.labels['apps.kubernetes.io/pod-index']": str(shard)}
    [environment] = [dict(row["data"]) for row in manifests if row["kind"] == "ConfigMap"]
    for row in container_of(manifests)["env"]:
        told = row["value"] if "value" in row else of_pod[row["valueFrom"]["fieldRef"]["fieldPath"]]
        environment[row["name"]] = told.replace("$(POD_NAME)", f"crdtstream-{shard}")
    del environment["POD_NAME"]
    return environment


def rendered(**changed: object) -> list[dict[str, Any]]:
    """The chart with its values but for those that are changed, as helm makes it."""
    values = loaded(CHART / "values.yaml") | changed
    paths = sorted((CHART / "templates").glob("*.yaml"))
    command = ["go", "run", str(Path(__file__).with_name("render.go")), *map(str, paths)]
    done = subprocess.run(command, input=json.dumps(values), check=True, capture_output=True, text=True)
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest is not None]


def in_order(manifests: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, manifests))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds the overlays")
@pytest.mark.parametrize("name", REGIONS)
def test_kustomize_builds_every_overlay(name: str) -> None:
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes" / "overlays" / name)]
    built = list(yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert {row["kind"] for row in built} == KINDS
    for manifest in built:
        kubernetes_validate.validate(manifest, RELEASE, strict=True)
        assert manifest["metadata"]["namespace"] == f"crdtstream-{name}"
    [settings] = [row["data"] for row in built if row["kind"] == "ConfigMap"]
    assert settings == config_map() | patch_of(name)


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm renders the chart")
def test_helm_renders_the_base() -> None:
    command = ["helm", "template", "east", str(CHART)]
    made = list(yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert in_order(made) == in_order(base())
