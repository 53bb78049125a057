"""The names in the certificates that deploy/certificates makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.tidy import ROOT


def test_a_certificate_has_the_names_and_addresses_that_are_given(tmp_path: Path) -> None:
    script = [str(ROOT / "deploy" / "certificates"), "east:1:east.shop.example,10.0.0.7,2001:db8::7"]
    subprocess.run(script, env={**os.environ, "TLS": str(tmp_path)}, check=True, capture_output=True, timeout=60)
    words = ["openssl", "x509", "-in", str(tmp_path / "east" / "certificate.pem"), "-noout", "-ext", "subjectAltName"]
    told = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout
    assert told.splitlines()[1].strip() == (
        "DNS:east, DNS:region-1, DNS:east.shop.example, IP Address:10.0.0.7, IP Address:2001:DB8:0:0:0:0:0:7"
    )
