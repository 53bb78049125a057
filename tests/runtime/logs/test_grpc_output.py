"""What libraries, warnings, C code and uncaught exceptions write is in the log as events; each line parses.

It replaces what belongs to the whole process, so it runs in one of its own.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.runtime.log_lines import PARSERS, events_in
from tests.tidy import ROOT

PROGRAM = """
import logging, os, sys, threading, warnings
from crdtstream.settings.config import Config
from crdtstream.runtime.logs.grpc_output import ForeignOutput
from crdtstream.runtime.logs.logging import configure_logging
import structlog

def fail():
    raise ZeroDivisionError("in a thread")

class Broken:
    def __del__(self):
        raise KeyError("in a finalizer")

with ForeignOutput():
    configure_logging(Config("east", 1, "shop", log_format=sys.argv[1]))
    structlog.get_logger().info("listening", redis="127.0.0.1:1")
    logging.getLogger("grpc._server").error("it failed\\nbadly")
    logging.getLogger("asyncio").info("not a warning")
    warnings.warn("a \\"quoted\\" warning", DeprecationWarning)
    for port in range(100):
        os.write(2, b"E0000 00:00:1.5     77 ssl_security.cc:18] Handshake failed: 127.0.0.1:%d\\n" % port)
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
    os.write(2, b"I0000 00:00:1.5     77 config.cc:18] of no interest\\n\\n\\xff raw \\n and the end")
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    Broken()
    raise SystemError("at last")
"""


@pytest.mark.parametrize("log_format", [*PARSERS])
def test_every_line_is_an_event(log_format: str) -> None:
    command = [sys.executable, "-W", "default", "-c", PROGRAM, log_format]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    told = events_in(ended.stderr, log_format)
    assert ended.returncode == 1
    assert of(told, "listening", "redis") == ["127.0.0.1:1"]
    warning, failure = sorted(of(told, "library-message", "detail"))[0:2]
    assert 'a "quoted" warning' in warning and failure == "it failed\nbadly"
    expected = ["ssl_security.cc:18: Handshake failed: 127.0.0.1:0", "\\xff raw", "and the end"]
    assert of(told, "native-message", "detail") == expected
    uncaught = of(told, "uncaught", "detail")
    assert uncaught == ["ZeroDivisionError: in a thread", "KeyError: 'in a finalizer'", "SystemError: at last"]
    assert all("Traceback" in text for text in of(told, "uncaught", "exception"))


def of(told: list[dict[str, Any]], event: str, field: str) -> list[str]:
    return [fields[field] for fields in told if fields["event"] == event]
