"""What calls share: settings, the clock, and secrets that outlive the region that made them."""

from __future__ import annotations

from crdtstream.oci.cursors import PartitionCursor
from crdtstream.oci.gateway import Gateway, GatewaySettings
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import OFF, bytes_from, config_of

CURSOR = PartitionCursor("s", 0, 7, (1, 1))


def test_settings() -> None:
    assert GatewaySettings.of(config_of(oci_limits="real")) == GatewaySettings(True, 200, False, False)
    assert GatewaySettings.of(config_of(oci_limits="real", oci_dev=True)).tools
    assert GatewaySettings.of(config_of(oci_limits="off")).tools
    signed = GatewaySettings.of(config_of(oci_limits="off", oci_keys="keys.toml"))
    assert signed.signed and not signed.tools


async def test_a_cursor_is_good_in_every_region() -> None:
    engine = FakeEngine()
    one, two = Gateway(engine, OFF, bytes_from()), Gateway(engine, OFF, bytes_from(50))
    assert two.opened(await one.sealed(CURSOR)) == one.opened(await two.sealed(CURSOR)) == CURSOR
    assert len(engine.documents("secret")) == 1


async def test_secrets_that_two_regions_made_at_once_are_both_good() -> None:
    east, west = FakeEngine(), FakeEngine()
    one, two = Gateway(east, OFF, bytes_from()), Gateway(west, OFF, bytes_from(50))
    texts = [await one.sealed(CURSOR), await two.sealed(CURSOR)]
    both = {**east.documents("secret"), **west.documents("secret")}
    east.kinds["secret"] = west.kinds["secret"] = both
    assert [gateway.opened(text) for gateway in (one, two) for text in texts] == [CURSOR] * 4
    fresh = Gateway(FakeEngine(), OFF, bytes_from(99))
    fresh.engine = east
    assert (await fresh.sealed(CURSOR)).partition(".")[0] == texts[0].partition(".")[0], "all seal with the same one"
