"""`crdtstream dashboard`: its options. NiceGUI is imported only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from crdtstream.admin.access import (
    AuthorityOption,
    CertificateOption,
    KeyFile,
    PasswordFileOption,
    UserOption,
    node_problem,
    password_of,
)
from crdtstream.dashboard.site import SITE, site_of
from crdtstream.observing.access import Access
from crdtstream.settings.config import is_loopback

PORT = 8080


def dashboard(
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST:PORT of a region's Redis port; one suffices where regions announce theirs.", show_default=False
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web page.")] = PORT,
    bind: Annotated[str, typer.Option(help="Address that it listens at.")] = "127.0.0.1",
    actions: Annotated[
        bool, typer.Option("--actions", help="Let users act, with the rights that the ACL gives them.")
    ] = False,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    cacert: AuthorityOption = None,
    cert: CertificateOption = None,
    key: KeyFile = None,
    web_cert: Annotated[str | None, typer.Option(help="Certificate of the web page, for TLS (PEM file).")] = None,
    web_key: Annotated[str | None, typer.Option(help="Its private key (PEM file).")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS, so that passwords can be read.")
    ] = False,
    prometheus: Annotated[
        str,
        typer.Option(help="URL of a Prometheus server, for charts of more than an hour and its own alerts."),
    ] = "",
    docs: Annotated[str, typer.Option(help="URL of the documentation, which alerts link to.")] = SITE,
) -> None:
    """Show all regions on a web page: do they agree, and who is behind?"""
    for address in node or []:
        problem = node_problem(address)
        if problem:
            raise typer.BadParameter(problem)
    if not node:
        raise typer.BadParameter("name a region: --node HOST:PORT", param_hint="--node")
    if not (is_loopback(bind.strip("[]")) or web_cert or insecure):
        raise typer.BadParameter(
            f"{bind} can be reached from other machines: give --web-cert and --web-key, or --insecure"
            " to send passwords readably",
            param_hint="--bind",
        )
    if (web_cert is None) != (web_key is None):
        raise typer.BadParameter("--web-cert and --web-key belong together", param_hint="--web-key")
    # Imported only here: the extra may not be installed, and the import takes a while.
    try:
        from crdtstream.dashboard.board import Board
        from crdtstream.dashboard.server import Listening, serve
    except ImportError as error:
        text = f"crdtstream: {error}: the dashboard needs pip install 'crdtstream[dashboard]'"
        typer.echo(text, err=True)
        raise typer.Exit(2) from error
    board = Board(node, Access(user, password_of(password_file), cacert, cert, key), actions, prometheus, site_of(docs))
    typer.echo(f"The dashboard is at {'https' if web_cert else 'http'}://{shown_host(bind)}:{port}/")
    serve(board, Listening(bind, port, web_cert, web_key))


def shown_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
