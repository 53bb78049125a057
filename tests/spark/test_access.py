"""What a client of bulk ports shows: metadata, and TLS files that may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.spark.access import Access, metadatum
from crdtstream.spark.options import OptionError, Options


def test_metadata_is_of_user_and_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("P", "hush")
    assert Access(Options({})).metadata() == ()
    assert Access(Options({"passwordEnv": "P"})).metadata() == (("password", "hush"),)
    access = Access(Options({"passwordEnv": "P", "user": "änn"}))
    assert access.metadata() == (("user-bin", "änn".encode()), ("password", "hush"))
    assert metadatum("password", "ö") == ("password-bin", b"\xc3\xb6")
    assert "hush" not in str(access.key)


def test_a_stamp_changes_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    access = Access(Options({"tls": "true", "tlsCaFile": str(file)}))
    seen = [access.stamp()]
    for content in ("one", "another"):
        file.write_text(content)
        seen.append(access.stamp())
    assert seen[0] != seen[1] != seen[2] == access.stamp()


def test_a_channel_needs_its_files(tmp_path: Path) -> None:
    access = Access(Options({"tls": "true", "tlsCaFile": str(tmp_path / "gone.pem")}))
    with pytest.raises(OptionError, match=r"tlsCaFile .*gone\.pem cannot be read here: No such file"):
        access.channel("127.0.0.1:1")
    Access(Options({})).channel("127.0.0.1:1").close()
