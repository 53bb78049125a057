"""The ACL file at the start, and as `serve --check` sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.connections.acl.user import User
from crdtstream.region.node import Node
from crdtstream.runtime.acl_file import SharedUsers, load_users, read_users
from crdtstream.runtime.checking import problems_of
from crdtstream.settings.config import Config, ConfigError


def test_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    config = replace(Config("east", 1, "c", data=str(tmp_path / "data")), aclfile=str(path))
    with pytest.raises(ConfigError, match="No such file or directory: create it, empty at first"):
        read_users(config)
    path.write_text("user ann on >pw\n\nuser bob +foo\n")
    (problem,) = problems_of(config)
    assert f"{path}:3: Error in applying operation '+foo': Unknown command or category name in ACL. " in problem
    path.write_text("user ann on >pw +@read\n")
    assert list(read_users(config)) == [b"ann"]
    assert problems_of(config) == []
    assert read_users(replace(config, aclfile="")) == {}


@pytest.mark.parametrize(("shards", "users"), [(2, [b"bob", b"default"]), (1, [b"ann", b"default"])])
def test_shards_read_the_file_again(shards: int, users: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("user ann on >pw +@read\n")
    node = Node(replace(Config("east", 1, "c", shards=shards), aclfile=str(path)), 1)
    load_users(node.context)
    shared = SharedUsers(node.context)
    node.context.users.put(User(b"cy"))
    shared.reload()
    assert b"cy" in node.context.users.names()
    node.context.users.remove(b"cy")
    path.write_text("user bob on >pw +@read\n")
    shared.reload()
    assert sorted(node.context.users.names()) == users
    path.write_text("user ann on >pw +foo\n")
    shared.reload()
    assert sorted(node.context.users.names()) == users
