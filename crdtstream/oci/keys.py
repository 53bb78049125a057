"""The keys file: whose signatures the gateway accepts.

    [[user]]
    tenancy = "ocid1.tenancy.oc1..a"
    user = "ocid1.user.oc1..b"
    fingerprint = "20:3b:..."                 # optional: the MD5 of the key, compared if given
    public_key_file = "alice.pem"             # beside the keys file, or: public_key = '''-----BEGIN PUBLIC KEY...'''

    [[session]]
    token_file = "token"                      # or: token = "eyJ..."; accepted as the key ID ST$eyJ...
    public_key_file = "session.pem"

The file is read again when it changes; if it cannot be used then, the keys stay as they were and the log says why.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from crdtstream.settings.config import ConfigError

TABLES: Final = ("user", "session")
SESSION: Final = "ST$"
KEY_BITS_MIN: Final = 2048

logger = structlog.get_logger()


class ApiKeys:
    """The keys of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = stamp(path)
        self._keys = read_keys(path)

    def current(self) -> Mapping[str, RSAPublicKey]:
        now = stamp(self._path)
        if now != self._seen:
            self._seen = now
            try:
                self._keys = read_keys(self._path)
                logger.info("oci-keys-read", file=str(self._path), keys=len(self._keys))
            except ConfigError as error:
                logger.error("oci-keys-unusable", reason=str(error))
        return self._keys


def stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_mtime_ns, status.st_size


def read_keys(path: Path) -> dict[str, RSAPublicKey]:
    """Key ID -> public key; raises ConfigError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the keys file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the keys file {path} is not TOML: {error}") from error
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise ConfigError(f"the keys file {path} has an unknown table {unknown[0]!r}: write [[user]] or [[session]]")
    keys = dict(entries(path, tables))
    if not keys:
        raise ConfigError(f"the keys file {path} names nobody: add a [[user]] with tenancy, user and public_key_file")
    return keys


def entries(path: Path, tables: dict[str, Any]) -> Iterator[tuple[str, RSAPublicKey]]:
    for table in TABLES:
        rows = tables.get(table, [])
        if not isinstance(rows, list):
            raise ConfigError(f"{path}: {table} must be an array of tables, [[{table}]]")
        for number, row in enumerate(rows, 1):
            place = f"{path}, [[{table}]] number {number}"
            key = public_key(path, row, place)
            yield (user_id(row, key, place) if table == "user" else session_id(path, row, place)), key


def user_id(row: dict[str, Any], key: RSAPublicKey, place: str) -> str:
    own = fingerprint(key)
    if row.get("fingerprint", own) != own:
        raise ConfigError(f"{place}: the fingerprint of the key is {own}, not {row['fingerprint']!r}: correct it")
    return f"{text(row, 'tenancy', place)}/{text(row, 'user', place)}/{own}"


def session_id(path: Path, row: dict[str, Any], place: str) -> str:
    return SESSION + text_or_file(path, row, "token", place).strip().removeprefix(SESSION)


def public_key(path: Path, row: dict[str, Any], place: str) -> RSAPublicKey:
    pem = text_or_file(path, row, "public_key", place)
    try:
        key = load_pem_public_key(pem.encode())
    except ValueError as error:
        raise ConfigError(f"{place}: public_key is not a public key in PEM: {error}") from error
    if not isinstance(key, RSAPublicKey) or key.key_size < KEY_BITS_MIN:
        raise ConfigError(f"{place}: public_key must be an RSA key of at least {KEY_BITS_MIN} bits")
    return key


def text_or_file(path: Path, row: dict[str, Any], name: str, place: str) -> str:
    """The value of `name`, or what is in the file that `name_file` names, beside the keys file."""
    if (name in row) == (f"{name}_file" in row):
        raise ConfigError(f"{place}: give {name} or {name}_file, one of them")
    if name in row:
        return text(row, name, place)
    file = path.parent / text(row, f"{name}_file", place)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{place}: {name}_file {file} cannot be read: {error}") from error


def text(row: dict[str, Any], name: str, place: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{place}: {name} must be a text, not {value!r}")
    return value


def fingerprint(key: RSAPublicKey) -> str:
    digest = hashlib.md5(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo), usedforsecurity=False)
    return digest.digest().hex(":")
