"""Users and TLS on the bulk port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkStub
from crdtstream.bulk.rights import READING, BulkCaller
from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.dispatch import find
from crdtstream.connections.access import change_user
from crdtstream.connections.acl.users import DEFAULT, open_user
from crdtstream.connections.client import Client
from crdtstream.processes.ports import free_port
from tests.bulk.columns import message_of
from tests.running_region import DEADLINE_S, config_of, running, until
from tests.runtime.bulk_ports import Port, refused, rows, serving
from tests.runtime.speakers import certificate, needs_openssl

DENIED = grpc.StatusCode.PERMISSION_DENIED
ANN = (("user", "ann"), ("password", "pw"))


def put(port: Port, name: bytes, rules: str) -> None:
    context = port.region.loop.node.context
    caller = Client(0, "", 0, context.users.default)
    change_user(context, caller, context.users.staged(name, rules.encode().split(), CATALOGUE.named))


async def heads(port: Port, **request: Any) -> list[bytes]:
    call = port.stub.Heads(bulk.HeadsRequest(**request), metadata=ANN, timeout=DEADLINE_S)
    return [one.stream async for one in call]


async def test_a_call_needs_the_right_to_the_command_that_does_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        put(port, b"ann", "on >pw +xadd +xinfo|stream +xrange %RW~s")
        await port.write(message_of(rows(3), [b"t"]))
        written = await port.write(message_of(rows(3)), metadata=ANN)
        assert written.added == 3
        assert await heads(port, streams=[b"s"]) == await heads(port) == [b"s"]
        for name in (b"t", b"u"):
            text = f"NOPERM User ann has no permissions to access the '{name.decode()}' key"
            await refused(heads(port, streams=[name]), DENIED, text)
        await refused(port.write(message_of(rows(1), [b"t"]), metadata=ANN), DENIED, "the 't' key")
        ack = bulk.AdvanceRequest(group=b"g", positions=[bulk.StreamPosition(stream=b"s")])
        await refused(port.stub.Advance(ack, metadata=ANN), DENIED, "no permissions to run the 'xack' command")
        publish = bulk.PublishRequest(application="app", batch=1)
        await refused(port.stub.Publish(publish, metadata=ANN), DENIED, "'crdtstream:published:app' key")
        assert (await port.stub.Describe(bulk.DescribeRequest(), metadata=ANN)).name == "east"
        statistics = port.region.loop.node.statistics
        assert (statistics.denied_keys, statistics.denied_commands) == (4, 1)
        newest = port.region.loop.node.context.users.log.entries[0]
        assert (newest.reason, newest.subject, newest.username) == ("key", b"crdtstream:published:app", b"ann")


async def test_users_are_asked_for_their_password(tmp_path: Path) -> None:
    async with serving(tmp_path) as port:
        put(port, b"ann", "on >pw +@all ~*")
        put(port, b"off", "off nopass")
        wrong = (("user", "ann"), ("password", "x"))
        for metadata in (wrong, wrong[:1], (("user", "off"),), (("user", "nobody"),)):
            call = port.stub.Describe(bulk.DescribeRequest(), metadata=metadata)
            await refused(call, grpc.StatusCode.UNAUTHENTICATED, "the user or the password")
        put(port, DEFAULT, "off")
        await refused(port.stub.Describe(bulk.DescribeRequest()), grpc.StatusCode.UNAUTHENTICATED, "has a password")
        assert (await port.stub.Describe(bulk.DescribeRequest(), metadata=ANN)).name == "east"


def test_who_may_do_everything_is_not_asked() -> None:
    assert BulkCaller(open_user(), "", find).may(READING, b"s")


@needs_openssl
async def test_tls(tmp_path: Path) -> None:
    certificate(tmp_path, "authority", None)
    for name in ("east", "ann"):
        certificate(tmp_path, name, "authority", 1)
    settings: Any = {
        "tls_cert_file": str(tmp_path / "east.pem"),
        "tls_key_file": str(tmp_path / "east.key"),
        "tls_ca_cert_file": str(tmp_path / "authority.pem"),
        "bulk_tls": True,
        "bulk_port": free_port(),
    }
    async with running(config_of(tmp_path, **settings)) as region:
        await until(lambda: "bulk" in region.loop._addresses, "the bulk port is open")
        address = region.loop._addresses["bulk"]
        root, key, own = [(tmp_path / name).read_bytes() for name in ("authority.pem", "ann.key", "ann.pem")]
        async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(root, key, own)) as channel:
            assert (await BulkStub(channel).Describe(bulk.DescribeRequest())).name == "east"
        for credentials in (grpc.ssl_channel_credentials(root), None):
            channel = (
                grpc.aio.insecure_channel(address)
                if credentials is None
                else grpc.aio.secure_channel(address, credentials)
            )
            async with channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await BulkStub(channel).Describe(bulk.DescribeRequest(), timeout=DEADLINE_S)
