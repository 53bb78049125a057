"""Records as documents."""

from __future__ import annotations

from crdtstream.oci.gateway import Gateway
from crdtstream.oci.registry import POOL, ocid, parsed
from crdtstream.oci.resources import StreamPoolRecord
from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import COMPARTMENT, OFF, bytes_from


def test_ids() -> None:
    assert ocid("stream", b"\0" * 35) == "ocid1.stream.oc1.." + "a" * 56


async def test_all_regions_mean_the_same_default_pool() -> None:
    east, west = FakeEngine(), FakeEngine()
    one = await Gateway(east, OFF, bytes_from()).registry.default_pool(COMPARTMENT)
    two = await Gateway(west, OFF, bytes_from(50)).registry.default_pool(COMPARTMENT)
    assert one.id == two.id
    again = Gateway(east, OFF, bytes_from(99)).registry
    assert (await again.default_pool(COMPARTMENT)).etag == one.etag, "it is made once"
    assert (await again.default_pool("other")).id != one.id


async def test_a_record_is_its_document() -> None:
    engine = FakeEngine()
    record = await Gateway(engine, OFF, bytes_from()).registry.default_pool(COMPARTMENT)
    assert parsed(StreamPoolRecord, engine.documents(POOL)[record.id]) == record
