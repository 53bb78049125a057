"""Where the page may listen, and that it speaks TLS with the certificate it is given."""

from __future__ import annotations

import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.cli.app import USAGE_ERROR, app
from crdtstream.processes.launching import LOCAL
from crdtstream.processes.ports import HOST, free_port
from crdtstream.processes.waiting import until
from tests.runtime.speakers import certificate, needs_openssl

NODE = ("--node", f"{HOST}:1")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    certificate(folder, "authority", None)
    certificate(folder, "page", "authority", 1)
    return folder


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[int]:
    """The dashboard, whose only region does not answer; yields its port once it is open."""
    pytest.importorskip("nicegui", reason="needs the extra `dashboard`", exc_type=ImportError)
    port, log = free_port(), directory / "dashboard.log"
    process = LOCAL.launch(["dashboard", "--port", str(port), *NODE, *options], log)
    try:
        until(lambda: accepts(port), lambda: f"it listens: {log.read_text()}")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def accepts(port: int) -> bool:
    try:
        page(f"http://{HOST}:{port}/")
    except urllib.error.URLError as error:
        return not isinstance(error.reason, ConnectionRefusedError)
    except ConnectionError:
        pass
    return True


def page(url: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    with urllib.request.urlopen(url, timeout=20, context=context) as answer:
        return answer.status, answer.read().decode()


def refusal(*options: str) -> str:
    result = CliRunner().invoke(app, ["dashboard", *NODE, *options], env={"COLUMNS": "300"})
    assert result.exit_code == USAGE_ERROR, result.output
    return result.output


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "[::]", "east.example"])
def test_other_machines_are_served_over_tls_alone(host: str) -> None:
    assert "can be reached from other machines: give --web-cert and --web-key" in refusal("--bind", host)


@pytest.mark.parametrize("option", ["--web-cert", "--web-key"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_certificate_needs_its_key(option: str, host: str) -> None:
    assert "--web-cert" in refusal("--bind", host, option, "page.pem")


@needs_openssl
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_shows_the_given_certificate(tls: Path, tmp_path: Path, host: str) -> None:
    options = ("--bind", host, "--web-cert", str(tls / "page.pem"), "--web-key", str(tls / "page.key"))
    with serving(tmp_path, *options) as port:
        trusting = ssl.create_default_context(cafile=str(tls / "authority.pem"))
        status, text = page(f"https://{HOST}:{port}/", trusting)
        assert status == 200 and "crdtstream" in text
        assert ssl.get_server_certificate((HOST, port)) == (tls / "page.pem").read_text()
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            page(f"https://{HOST}:{port}/", ssl.create_default_context())
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            page(f"http://{HOST}:{port}/")


def test_plain_text_for_other_machines_is_a_wish(tmp_path: Path) -> None:
    with serving(tmp_path, "--bind", "0.0.0.0", "--insecure") as port:
        assert page(f"http://{HOST}:{port}/")[0] == 200
