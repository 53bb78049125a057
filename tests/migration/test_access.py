"""What a URL, options, files and variables make of a server, and that no text shows a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crdtstream.migration.access import Access, AccessError, password_of, shown


@pytest.mark.parametrize(
    ("access", "arguments"),
    [
        (Access("redis://h:1"), {"host": "h", "port": 1, "db": 0, "username": None, "password": None}),
        (Access("redis://[::1]/5"), {"host": "::1", "port": 6379, "db": 5}),
        (Access("redis://:p%2Fw@h"), {"username": None, "password": "p/w"}),
        (Access("redis://ann@h", password="pw"), {"username": "ann", "password": "pw"}),
        (Access("redis://h", "ann", "pw"), {"username": "ann", "password": "pw"}),
        (Access("rediss://h"), {"ssl": True}),
        (
            Access("rediss://h", authority="a", certificate="c", key="k"),
            {"ssl": True, "ssl_ca_certs": "a", "ssl_certfile": "c", "ssl_keyfile": "k"},
        ),
    ],
)
def test_what_a_client_is_given(access: Access, arguments: dict[str, Any]) -> None:
    found = access.arguments("the source")
    assert {name: found.get(name) for name in arguments} == arguments
    assert ("ssl" in found) == access.url.startswith("rediss")


@pytest.mark.parametrize(
    ("access", "text"),
    [
        (Access("h:1"), "must be redis://"),
        (Access("http://h:1"), "must be redis://"),
        (Access("redis://h:hush"), "must be redis://"),
        (Access("redis://h/hush"), "must be redis://"),
        (Access("redis://h?password=hush"), "must be redis://"),
        (Access("redis://:hush/hush@h:1"), "must be redis://"),
        (Access("redis://:hush@h", password="hush"), "give only one of them"),
        (Access("redis://ann:hush@h", user="bob"), "names another user than the option"),
        (Access("redis://ann@h"), "has a user without a password: name the file"),
        (Access("redis://:hush@h", authority="a"), "TLS files were given for redis://h: write rediss://"),
        (Access("rediss://:hush@h", certificate="c"), "go together: give both or none"),
    ],
)
def test_what_cannot_work_is_named_without_the_secret(access: Access, text: str) -> None:
    with pytest.raises(AccessError) as raised:
        access.arguments("the source")
    assert text in str(raised.value) and "hush" not in str(raised.value)


def test_nothing_shows_a_password() -> None:
    assert shown("redis://ann:hush@h:1/3") == "redis://h:1/3"
    assert "hush" not in repr(Access("redis://:hush@h", password="hush"))


def test_a_password_is_of_a_file_or_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"of the file\r\n")
    assert password_of(file, "P", {"P": "of the variable"}) == "of the file"
    assert password_of(None, "P", {"P": "of the variable"}) == "of the variable"
    assert password_of(None, "P", {}) == ""
    for content in (None, b"\xff"):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        with pytest.raises(AccessError, match=r"the password file .* cannot be read"):
            password_of(file, "P", {})
