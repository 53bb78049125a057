"""When certificates end, as openssl made them."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crdtstream.runtime.tls.validity import chain_end_s, validities
from tests.runtime.speakers import needs_openssl

pytestmark = needs_openssl


def made(folder: Path, name: str, ends: str, *more: str, subject: str = "") -> bytes:
    """A certificate that ends then, as PEM."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
    asked = ["openssl", "req", "-new", "-subj", f"/CN={subject or name}", *key, "-out", f"{name}.request"]
    subprocess.run(asked, cwd=folder, check=True, capture_output=True)
    database = folder / f"{name}.database"
    database.mkdir()
    (database / "index").touch()
    (database / "settings").write_text(
        f"[ca]\ndefault_ca=one\n[one]\ndatabase={database}/index\nnew_certs_dir={database}\nrand_serial=yes\n"
        "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n"
    )
    signer = more or ("-selfsign", "-keyfile", f"{name}.key")
    dates = ["-startdate", "20200101000000Z", "-enddate", ends]
    run = ["openssl", "ca", "-batch", "-config", str(database / "settings"), "-in", f"{name}.request", *dates, *signer]
    subprocess.run([*run, "-out", f"{name}.pem"], cwd=folder, check=True, capture_output=True)
    return (folder / f"{name}.pem").read_bytes()


def second(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize("ends", ["20271130235959Z", "20491231235959Z", "20500101000000Z", "99991231235959Z"])
def test_both_forms_of_a_time(tmp_path: Path, ends: str) -> None:
    assert chain_end_s(made(tmp_path, "east", ends), b"") == second(ends)


def test_an_authority_that_ends_first_counts(tmp_path: Path) -> None:
    old = made(tmp_path, "old", "20270101000000Z")
    new = made(tmp_path, "new", "20260101000000Z")
    own = made(tmp_path, "east", "20280101000000Z", "-cert", "old.pem", "-keyfile", "old.key")
    assert chain_end_s(own, old + new) == second("20270101000000Z")
    assert chain_end_s(own, new) == second("20280101000000Z")
    assert [each.ends_s for each in validities(old + new)] == [second("20270101000000Z"), second("20260101000000Z")]


def test_of_a_chain_the_first_to_end_counts(tmp_path: Path) -> None:
    between = made(tmp_path, "between", "20270101000000Z")
    own = made(tmp_path, "east", "20280101000000Z", "-cert", "between.pem", "-keyfile", "between.key")
    assert chain_end_s(own + between, b"") == second("20270101000000Z")


def test_of_authorities_with_one_name_the_first_to_end_counts(tmp_path: Path) -> None:
    old = made(tmp_path, "old", "20270101000000Z", subject="authority")
    new = made(tmp_path, "new", "20300101000000Z", subject="authority")
    own = made(tmp_path, "east", "20280101000000Z", "-cert", "new.pem", "-keyfile", "new.key")
    assert chain_end_s(own, old + new) == second("20270101000000Z")


@pytest.mark.parametrize(
    ("pem", "text"),
    [
        (b"", "there is no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----", "cannot be read"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "cannot be read"),
    ],
)
def test_what_is_no_certificate(pem: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        chain_end_s(pem, b"")
