"""Running `crdtstream admin` in tests."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from crdtstream.cli.app import app
from crdtstream.processes.region import RegionProcess


def redis_address(region: RegionProcess) -> str:
    return f"127.0.0.1:{region.port}"


def invoke(region: RegionProcess, *words: str, columns: int = 100) -> tuple[int, str]:
    """Exit code and output of a sub-command that is told of one region."""
    arguments = ["admin", *words, "--node", redis_address(region)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": str(columns)})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def invoke_json(region: RegionProcess, *words: str) -> tuple[int, Any]:
    code, text = invoke(region, *words, "--json")
    return code, json.loads(text)
