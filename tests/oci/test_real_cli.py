"""The CLI of OCI against a gateway; a start of it takes seconds, so the calls are few."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import COMPARTMENT, served
from tests.oci.sdk import b64
from tests.oci.signing import private_pem, sdk_config

OCI = shutil.which("oci", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(OCI is None, reason="needs the CLI of OCI")


class Cli:
    """With a configuration file of its own."""

    def __init__(self, directory: Path, url: str) -> None:
        key, self.config = directory / "key.pem", directory / "config"
        key.write_text(private_pem())
        settings = {**sdk_config(), "key_file": str(key)}
        del settings["key_content"]
        self.config.write_text("[DEFAULT]\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
        for file in (key, self.config):
            file.chmod(0o600)
        self.url = url

    def run(self, *words: str) -> Any:
        done = self.ran(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def ran(self, *words: str) -> subprocess.CompletedProcess[str]:
        options = ["--config-file", str(self.config), "--endpoint", self.url, "--no-retry"]
        return subprocess.run([str(OCI), *options, "streaming", *words], capture_output=True, text=True)


def test_a_session(tmp_path: Path) -> None:
    with served(FakeEngine()) as url:
        cli = Cli(tmp_path, url)
        made = cli.run(
            "admin", "stream", "create", "--name", "orders", "--partitions", "1", "--compartment-id", COMPARTMENT
        )
        stream = made["data"]["id"]
        messages = json.dumps([{"key": b64("k"), "value": b64("hello")}])
        put = cli.run("stream", "message", "put", "--stream-id", stream, "--messages", messages)
        assert put["data"]["failures"] == 0 and put["data"]["entries"][0]["offset"] == 0
        group = ["--stream-id", stream, "--group-name", "g", "--instance-name", "a"]
        cursor = cli.run("stream", "cursor", "create-group-cursor", *group, "--type", "TRIM_HORIZON")["data"]["value"]
        got = cli.run("stream", "message", "get", "--stream-id", stream, "--cursor", cursor)
        assert [row["value"] for row in got["data"]] == [b64("hello")] and got["opc-next-cursor"]
        refused = cli.ran("stream", "message", "get", "--stream-id", "no", "--cursor", cursor)
        assert refused.returncode != 0 and "NotAuthorizedOrNotFound" in refused.stderr
