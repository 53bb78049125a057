"""The dashboard as a process, and a headless Chromium that looks at it."""

from __future__ import annotations

import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from crdtstream.processes.launching import LOCAL
from crdtstream.processes.ports import HOST, free_port
from crdtstream.processes.waiting import until

CHROMIUM = shutil.which("chromium")
# Where a page is wide, dark, or as narrow as a phone.
DESK, PHONE = (1280, 900), (390, 844)


def need_browser() -> None:
    """Skip the tests of the module where the extras or Chromium are missing."""
    pytest.importorskip("nicegui", reason="needs the extra `dashboard`", exc_type=ImportError)
    need_chromium()


def need_chromium() -> None:
    """Skip a test, or the tests of the module, where Chromium or what drives it is missing."""
    pytest.importorskip("playwright", reason="needs the extra `browser`", exc_type=ImportError)
    if CHROMIUM is None:
        pytest.skip("needs chromium", allow_module_level=True)


@contextmanager
def dashboard(directory: Path, ports: Sequence[int], *options: str) -> Iterator[str]:
    """Run it on these Redis ports; yields its address."""
    port = free_port()
    nodes = [word for each in ports for word in ("--node", f"{HOST}:{each}")]
    log = directory / f"dashboard-{port}.log"
    process = LOCAL.launch(["dashboard", "--port", str(port), *nodes, *options], log)
    url = f"http://{HOST}:{port}"
    try:
        until(lambda: answers(url), lambda: f"the dashboard answers: {log.read_text()}")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class Looker:
    """A browser; it notes which hosts its pages ask, and what goes wrong in them."""

    def __init__(self, browser: Any, url: str) -> None:
        self._browser = browser
        self.url = url
        self.hosts: set[str] = set()
        self.faults: list[str] = []

    @contextmanager
    def page(self, path: str, size: tuple[int, int] = DESK, scheme: str = "light") -> Iterator[Any]:
        viewport = {"width": size[0], "height": size[1]}
        context = self._browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("request", self._note)
        page.on("pageerror", lambda error: self.faults.append(f"{path}: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"{path}: a script ran: {dialog.message}"))
        try:
            page.goto(self.url + path)
            yield page
        finally:
            context.close()

    def _note(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob"):
            self.hosts.add(parts.netloc)

    def check(self) -> None:
        """Nothing failed, and no other host was asked."""
        assert self.faults == []
        assert self.hosts == {urlsplit(self.url).netloc}


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; Playwright allows one at a time."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def looking_at(browser: Any, url: str) -> Iterator[Looker]:
    looker = Looker(browser, url)
    yield looker
    looker.check()
