"""`/` of the HTTP port, as text."""

from __future__ import annotations

from crdtstream.runtime.http.front_page import front_page
from crdtstream.settings.config import Config


def test_names_are_no_html() -> None:
    page = front_page(Config(region=1, name="<b>", cluster="a&b"), ["/metrics"]).decode()
    assert "&lt;b&gt; of a&amp;b" in page and "<b>" not in page
    assert "crdtstream dashboard" in page
