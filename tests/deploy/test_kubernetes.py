"""deploy/kubernetes and deploy/helm, without a cluster: what is committed is made, is valid, and starts regions."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from crdtstream.settings.config import Limits
from crdtstream.settings.sources import Sources

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "crdtstream"
SCRIPT = runpy.run_path(str(DEPLOY / "kubernetes" / "make"))
REGIONS: dict[str, int] = SCRIPT["REGIONS"]
RELEASE = "1.33.0"
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


def test_the_chart_with_its_values_is_the_base() -> None:
    """Templates only insert values; so this renders them as helm does."""
    values = {name: str(value) for name, value in loaded(CHART / "values.yaml").items()}
    for path in sorted((CHART / "templates").glob("*.yaml")):
        text = re.sub(r"\{\{-? (if .*|end) ?\}\}\n", "", path.read_text())
        text = re.sub(r"\{\{ \.Values\.(\w+) \| quote \}\}", lambda match: f'"{values[match[1]]}"', text)
        folder = "monitoring" if path.name == "monitor.yaml" else "base"
        assert "{{" not in text
        assert yaml.safe_load(text) == loaded(DEPLOY / "kubernetes" / folder / path.name)


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
    rendered = list(yaml.safe_load_all(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert sorted(map(str, rendered)) == sorted(map(str, base()))
