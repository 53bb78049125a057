"""Parsers of log lines that know nothing of what wrote them: JSON, and logfmt as Go's libraries read it."""

from __future__ import annotations

import json
import re
from typing import Any

PAIR = re.compile(r'([^\s="]+)=("(?:[^"\\]|\\.)*"|[^\s="]*)(?: |$)')


def parse_logfmt(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(line):
        match = PAIR.match(line, at)
        assert match, f"not logfmt at {at}: {line}"
        name, value = match[1], match[2]
        assert name not in found, f"{name} twice: {line}"
        found[name] = json.loads(value) if value.startswith('"') else value
        at = match.end()
    return found


def parse_json(line: str) -> dict[str, Any]:
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


PARSERS = {"json": parse_json, "logfmt": parse_logfmt}


def events_in(log: str, log_format: str) -> list[dict[str, Any]]:
    """Every line of a log; what is no event fails."""
    told = [PARSERS[log_format](line) for line in log.split("\n")[:-1]]
    for fields in told:
        assert {"timestamp", "level", "event", "region"} <= {*fields}, fields
    return told
