"""The SDK of OCI against a real region: every call of the control plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oci.ports import COMPARTMENT
from tests.oci.sdk import Clients, gateways, models, oci, refused

OTHER = "ocid1.compartment.oc1..other"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    with gateways(tmp_path_factory.mktemp("admin")) as (one,):
        yield Clients(one.url)


def test_the_life_of_a_stream(clients: Clients) -> None:
    admin = clients.admin
    made = admin.create_stream(
        models().CreateStreamDetails(
            name="life", partitions=3, compartment_id=COMPARTMENT, retention_in_hours=168, freeform_tags={"a": "b"}
        )
    )
    assert made.status == 200 and made.data.lifecycle_state == "CREATING"
    waited = oci.wait_until(admin, admin.get_stream(made.data.id), "lifecycle_state", "ACTIVE")
    assert (waited.data.partitions, waited.data.retention_in_hours, waited.data.freeform_tags) == (3, 168, {"a": "b"})
    assert waited.data.messages_endpoint == clients.url
    updated = admin.update_stream(
        made.data.id, models().UpdateStreamDetails(freeform_tags={}), if_match=waited.headers["etag"]
    )
    assert updated.data.freeform_tags == {}
    details = models().ChangeStreamCompartmentDetails(compartment_id=OTHER)
    assert refused(admin.change_stream_compartment, made.data.id, details, if_match="old")[:2] == (412, "NoEtagMatch")
    admin.change_stream_compartment(made.data.id, details)
    assert admin.get_stream(made.data.id).data.compartment_id == OTHER
    gone = admin.delete_stream(made.data.id)
    assert gone.status == 204
    assert admin.get_stream(made.data.id).data.lifecycle_state == "DELETED"
    work = admin.get_work_request(gone.headers["opc-work-request-id"]).data
    assert (work.operation_type, work.status) == ("DELETE_STREAM", "SUCCEEDED")


def test_the_life_of_a_pool(clients: Clients) -> None:
    admin = clients.admin
    details = models().CreateStreamPoolDetails(name="pool", compartment_id=COMPARTMENT)
    pool = admin.create_stream_pool(details, opc_retry_token="token").data
    assert admin.create_stream_pool(details, opc_retry_token="token").data.id == pool.id
    stream = clients.admin.create_stream(
        models().CreateStreamDetails(name="within", partitions=1, stream_pool_id=pool.id)
    ).data
    assert [row.id for row in admin.list_streams(stream_pool_id=pool.id).data] == [stream.id]
    named = admin.update_stream_pool(pool.id, models().UpdateStreamPoolDetails(name="new")).data
    assert (named.name, named.kafka_settings.num_partitions) == ("new", 1)
    admin.change_stream_pool_compartment(pool.id, models().ChangeStreamPoolCompartmentDetails(compartment_id=OTHER))
    assert admin.get_stream(stream.id).data.compartment_id == OTHER
    assert [row.id for row in admin.list_stream_pools(OTHER, name="new").data] == [pool.id]
    assert admin.delete_stream_pool(pool.id).status == 204
    assert admin.get_stream_pool(pool.id).data.lifecycle_state == "DELETED"
    assert admin.get_stream(stream.id).data.lifecycle_state == "DELETED"


def test_lists_have_pages(clients: Clients) -> None:
    compartment = "ocid1.compartment.oc1..pages"
    for number in range(12):
        details = models().CreateStreamDetails(name=f"p{number:02}", partitions=1, compartment_id=compartment)
        clients.admin.create_stream(details)
    listed = oci.pagination.list_call_get_all_results(
        clients.admin.list_streams, compartment_id=compartment, sort_by="NAME", sort_order="DESC", limit=5
    ).data
    assert [row.name for row in listed] == [f"p{number:02}" for number in reversed(range(12))]
    works = oci.pagination.list_call_get_all_results(
        clients.admin.list_work_requests, compartment_id=compartment, limit=5
    ).data
    assert len(works) == 12 and {row.operation_type for row in works} == {"CREATE_STREAM"}
    assert clients.admin.list_work_request_errors(works[0].id).data.items == []
    assert len(clients.admin.list_work_request_logs(works[0].id).data.items) == 1


def test_bad_requests(clients: Clients) -> None:
    details = models().CreateStreamDetails
    invalid = (400, "InvalidParameter")
    create = clients.admin.create_stream
    clients.stream("twice", 1)
    assert refused(clients.stream, "twice", 1)[:2] == (409, "Conflict")
    assert refused(create, details(name="a b", partitions=1, compartment_id=COMPARTMENT))[:2] == invalid
    assert refused(create, details(name="a", partitions=1))[:2] == (400, "MissingParameter")
    assert refused(clients.stream, "long", 1, retention_in_hours=169)[:2] == invalid
    assert refused(clients.admin.list_streams)[:2] == (400, "MissingParameter")
    assert refused(clients.admin.get_stream_pool, "no")[:2] == (404, "NotAuthorizedOrNotFound")
    assert refused(clients.admin.get_work_request, "no")[:2] == (404, "NotAuthorizedOrNotFound")


def test_connect_harnesses_are_not_served(clients: Clients) -> None:
    status, code, message = refused(clients.admin.list_connect_harnesses, COMPARTMENT)
    assert (status, code) == (404, "NotFound") and "Kafka Connect" in message
    assert refused(clients.admin.get_connect_harness, "x")[:2] == (404, "NotFound")
