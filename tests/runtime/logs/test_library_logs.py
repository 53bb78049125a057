"""Lines of gRPC's C core about refused peers become log lines, once a minute for each reason; all others pass."""

from __future__ import annotations

import os

import pytest
from structlog.testing import capture_logs

from crdtstream.runtime.logs.library_logs import Refusals, forward, reason_in

HEAD = b"I1122 20:34:03.657143    7044 ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: "
CASES = [
    (
        b"error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unable to get local issuer"
        b" certificate",
        "certificate verify failed: unable to get local issuer certificate",
    ),
    (
        b"error:100000c0:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE: Invalid certificate"
        b" verification context",
        "peer did not return a certificate",
    ),
    (b"error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER", "wrong version number"),
    (b"something new", "something new"),
]


@pytest.mark.parametrize(("line", "reason"), CASES)
def test_reasons(line: bytes, reason: str) -> None:
    assert reason_in(HEAD + line + b"\n") == reason


def test_lines_are_forwarded() -> None:
    reading, writing = os.pipe()
    out_reading, out_writing = os.pipe()
    others = [b"E0000 something else\n", b"the end without a line feed"]
    os.write(writing, others[0] + HEAD + CASES[0][0] + b"\n" + HEAD + CASES[0][0] + b"\n" + others[1])
    os.close(writing)
    with capture_logs() as logs:
        forward(reading, out_writing, Refusals(lambda: 0))
    os.close(out_writing)
    with os.fdopen(out_reading, "rb") as out:
        assert out.read() == b"".join(others)
    assert [entry["reason"] for entry in logs] == [CASES[0][1]]


def test_a_reason_is_told_once_a_minute() -> None:
    times = [0, 1, 2, 60_000, 60_001, 60_001]
    refusals = Refusals(lambda: times.pop(0))
    with capture_logs() as logs:
        for _ in range(5):
            refusals.log("a")
        refusals.log("b")
    assert [entry["reason"] for entry in logs] == ["a", "a; 2 more like it since the last warning", "b"]
