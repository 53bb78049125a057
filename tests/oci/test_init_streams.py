"""Streams that a start creates: what is written, and that it waits for a region that is not ready yet."""

from __future__ import annotations

import pytest

from crdtstream.oci.gateway import Gateway, GatewaySettings
from crdtstream.oci.init_streams import create_all, id_of, init_streams
from crdtstream.oci.resources import FAILED
from crdtstream.partitions.values import INVALID, UNWRITABLE, Refused
from crdtstream.settings.config import ConfigError
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import OFF, bytes_from


def test_what_is_written() -> None:
    assert init_streams("") == []
    found = init_streams("orders:8, a.b-c:1")
    assert [(each.name, each.partitions) for each in found] == [("orders", 8), ("a.b-c", 1)]


@pytest.mark.parametrize("text", ["orders", "orders:", ":3", "orders:x", "orders:1,", "orders:0", "a b:1", "orders:-1"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="init-streams"):
        init_streams(text)


async def test_they_are_created_once() -> None:
    engine = FakeEngine()
    gateway = Gateway(engine, OFF, bytes_from())
    await create_all(gateway, init_streams("orders:8,events:2"))
    first = engine.documents("stream")
    await create_all(gateway, init_streams("orders:9"))
    assert engine.documents("stream") == first
    assert sorted(engine.streams) == [id_of("events"), id_of("orders")]
    assert engine.streams["ocid1.stream.oc1..orders"].spec.partitions == 8


async def test_a_region_that_takes_no_writes_yet_is_waited_for() -> None:
    class Starting(FakeEngine):
        tries = 0

        def _at_home(self) -> None:
            self.tries += 1
            if self.tries < 4:
                raise Refused(UNWRITABLE, "this region is not admitted yet")

    engine = Starting()
    await create_all(Gateway(engine, OFF, bytes_from()), init_streams("orders:8"), pause_s=0)
    assert id_of("orders") in engine.streams


async def test_one_that_cannot_be_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    engine = FakeEngine()
    engine.refusal = Refused(INVALID, "no such thing")
    await create_all(Gateway(engine, OFF, bytes_from()), init_streams("orders:8"))
    assert "no such thing" in capsys.readouterr().out


async def test_the_quota_holds() -> None:
    engine = FakeEngine()
    gateway = Gateway(engine, GatewaySettings(partitions_max=4), bytes_from())
    await create_all(gateway, init_streams("orders:8"))
    assert gateway.registry.stream(id_of("orders")).lifecycle_state == FAILED
