"""The keys file: whom it names, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as curve_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from crdtstream.oci.keys import ApiKeys, read_keys
from crdtstream.settings.config import ConfigError
from tests.oci.signing import TENANCY, USER, key_id, private_key, public_pem

WHO = f'tenancy = "{TENANCY}"\nuser = "{USER}"\n'


def inline(number: int = 0) -> str:
    return f"[[user]]\n{WHO}public_key = '''\n{public_pem(number)}'''\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    return path


def test_users_and_sessions(tmp_path: Path) -> None:
    (tmp_path / "alice.pem").write_text(public_pem(1))
    (tmp_path / "token").write_text("eyJ.a.b\n")
    more = f'[[user]]\n{WHO}fingerprint = "{key_id(1).rsplit("/")[-1]}"\npublic_key_file = "alice.pem"\n'
    more += '[[session]]\ntoken_file = "token"\npublic_key_file = "alice.pem"\n'
    keys = read_keys(written(tmp_path, inline() + more))
    assert sorted(keys) == sorted([key_id(), key_id(1), "ST$eyJ.a.b"])
    assert keys["ST$eyJ.a.b"].public_numbers() == private_key(1).public_key().public_numbers()


def curve_pem() -> str:
    return curve_key(SECP256R1()).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "names nobody: add a [[user]]"),
        ("[[user]", "is not TOML"),
        ("[[person]]", "has an unknown table 'person'"),
        ("[user]", "user must be an array of tables"),
        (f"[[user]]\n{WHO}", "number 1: give public_key or public_key_file, one of them"),
        (inline().replace("tenancy", "tenant"), "number 1: tenancy must be a text, not None"),
        (f'{inline()}fingerprint = "00:11"\n', "the fingerprint of the key is"),
        (f'[[user]]\n{WHO}public_key = "x"\n', "public_key is not a public key in PEM"),
        (f'[[user]]\n{WHO}public_key_file = "gone.pem"\n', "gone.pem cannot be read"),
        (f"[[user]]\n{WHO}public_key = '''{curve_pem()}'''\n", "must be an RSA key of at least 2048 bits"),
        (inline().replace("[[user]]", "[[session]]"), "number 1: give token or token_file, one of them"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_keys(written(tmp_path, text))
    assert expected in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        ApiKeys(tmp_path / "none.toml")


def test_it_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = written(tmp_path, inline())
    keys = ApiKeys(path)
    assert list(keys.current()) == [key_id()]
    path.write_text(inline() + inline(1))
    assert sorted(keys.current()) == sorted([key_id(), key_id(1)])
    path.write_text("broken")
    assert len(keys.current()) == 2, "a mistake locks nobody out"
    path.unlink()
    assert len(keys.current()) == 2
