"""How the tools for operators reach regions: user, password and TLS, as options that all of them have.

There is no option for the password, because `ps` would show it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.settings.config import is_address

UserOption = Annotated[str | None, typer.Option(envvar="CRDTSTREAM_USER", help="User of the Redis ports.")]
PasswordFileOption = Annotated[
    Path | None, typer.Option(help="File with its password, one line; or the variable CRDTSTREAM_PASSWORD.")
]
AuthorityOption = Annotated[str | None, typer.Option(help="The ports are TLS ports: their authority (PEM file).")]
CertificateOption = Annotated[str | None, typer.Option(help="Certificate to show to them (PEM file).")]
KeyFile = Annotated[str | None, typer.Option(help="Its private key (PEM file).")]


def node_problem(address: str) -> str:
    """Return what is wrong with the address of a region's Redis port; an empty text if nothing is."""
    if is_address(address):
        return ""
    hint = ", without a scheme" if "://" in address else ""
    return f"{address!r} must be HOST:PORT{hint}, the Redis address of a region"


def password_of(path: Path | None) -> str | None:
    """The password, which is no option, because ps would show it."""
    if path is None:
        return os.environ.get("CRDTSTREAM_PASSWORD")
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise typer.BadParameter(f"the password file {path} cannot be read: {error.strerror}") from error
