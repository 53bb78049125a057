"""Streams as resources: create, get, list, update, delete, and move to another compartment.

A name is unique among the streams of a pool that are not deleted. The reply of CreateStream says CREATING, as the
service does, and the stream can be used as soon as the reply is there.
"""

from __future__ import annotations

import re
from typing import Any, Final

from crdtstream.oci.calls import NO_CONTENT, Call, GatewayReply, json_reply, model_reply
from crdtstream.oci.errors import conflict, invalid, missing, no_etag_match, unknown
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.limits import RETENTION_HOURS_MAX, RETENTION_HOURS_MIN
from crdtstream.oci.paging import listed
from crdtstream.oci.registry import STREAM
from crdtstream.oci.resources import (
    ACTIVE,
    CREATING,
    DELETED,
    FAILED,
    UPDATED,
    ChangeCompartmentDetails,
    CreateStreamDetails,
    OciStream,
    StreamPoolRecord,
    StreamRecord,
    StreamSummary,
    UpdateStreamDetails,
)
from crdtstream.partitions.values import StreamSpec

HOUR_MS: Final = 3_600_000
NAME: Final = re.compile(r"[\w.-]{1,255}", re.ASCII)
# A cursor names each partition that its instance owns, and travels in a header and in a URL.
PARTITIONS_MAX: Final = 1_000
OVER_QUOTA: Final = "You exceeded the number of allowed partitions for your tenancy"
WORK: Final = "opc-work-request-id"


async def create_stream(gateway: Gateway, call: Call) -> GatewayReply:
    details = call.parsed(CreateStreamDetails)
    validate(details)
    pool = await pool_meant(gateway, details.compartment_id, details.stream_pool_id)
    require_free(gateway, details.name, pool.id)
    await gateway.registry.forget_old()
    record = await created(gateway, details, pool, gateway.registry.new_id(STREAM))
    error = record.lifecycle_state_details or ""
    work = await gateway.registry.log_work("CREATE_STREAM", record, error=error)
    return stream_reply(record.changed(lifecycle_state=CREATING, lifecycle_state_details=None), call, work)


def validate(details: CreateStreamDetails) -> None:
    if not NAME.fullmatch(details.name):
        raise invalid(f"name {details.name!r} must have 1 to 255 letters, digits, '.', '_' or '-'")
    if not 1 <= details.partitions <= PARTITIONS_MAX:
        raise invalid(f"partitions {details.partitions} must be from 1 to {PARTITIONS_MAX}")
    hours = details.retention_in_hours
    if hours is not None and not RETENTION_HOURS_MIN <= hours <= RETENTION_HOURS_MAX:
        raise invalid(f"retentionInHours {hours} must be from {RETENTION_HOURS_MIN} to {RETENTION_HOURS_MAX}")


async def pool_meant(gateway: Gateway, compartment_id: str | None, pool_id: str | None) -> StreamPoolRecord:
    """Raises OciError."""
    if compartment_id and pool_id:
        raise invalid("compartmentId and streamPoolId are both given: give one of them")
    if compartment_id:
        return await gateway.registry.default_pool(compartment_id)
    if not pool_id:
        raise missing("compartmentId or streamPoolId is required: give one of them")
    pool = gateway.registry.pool(pool_id)
    if pool.lifecycle_state != ACTIVE:
        raise unknown("stream pool", pool_id)
    return pool


def require_free(gateway: Gateway, name: str, pool_id: str) -> None:
    for record in gateway.registry.streams():
        if (record.name, record.stream_pool_id, record.lifecycle_state) == (name, pool_id, ACTIVE):
            raise conflict(f"the stream pool {pool_id} has a stream {name!r} already, {record.id}: choose another name")


async def created(gateway: Gateway, details: CreateStreamDetails, pool: StreamPoolRecord, id: str) -> StreamRecord:
    """Make the stream and write its record; one beyond the quota is written as failed."""
    present = sum(record.partitions for record in gateway.registry.streams() if record.lifecycle_state == ACTIVE)
    allowed = gateway.quotas.allows_partitions(present, details.partitions)
    hours = details.retention_in_hours or RETENTION_HOURS_MIN
    # There already, if its record was lost in a crash.
    if allowed and gateway.engine.spec(id) is None:
        await gateway.engine.create_stream(StreamSpec(id, details.partitions, hours * HOUR_MS))
    record = StreamRecord(
        id=id,
        name=details.name,
        partitions=details.partitions,
        retention_in_hours=hours,
        compartment_id=pool.compartment_id,
        stream_pool_id=pool.id,
        lifecycle_state=ACTIVE if allowed else FAILED,
        lifecycle_state_details=None if allowed else OVER_QUOTA,
        time_created=gateway.registry.now(),
        freeform_tags=details.freeform_tags or {},
        defined_tags=details.defined_tags or {},
        etag=gateway.registry.new_etag(),
    )
    await gateway.registry.write(STREAM, record)
    return record


async def get_stream(gateway: Gateway, call: Call) -> GatewayReply:
    return stream_reply(gateway.registry.stream(call.path["streamId"]), call)


async def list_streams(gateway: Gateway, call: Call) -> GatewayReply:
    pool_id = call.query.get("streamPoolId")
    if pool_id is None and "compartmentId" not in call.query:
        raise missing("compartmentId or streamPoolId is required: give one of them")
    if pool_id is not None and "compartmentId" in call.query:
        raise invalid("compartmentId and streamPoolId are both given: give one of them")
    records = [each for each in gateway.registry.streams() if pool_id in (None, each.stream_pool_id)]
    page, headers = listed(call, records)
    shown = [shown_as(StreamSummary, record, call) for record in page]
    return GatewayReply(json_reply(shown).body, headers=headers)


async def update_stream(gateway: Gateway, call: Call) -> GatewayReply:
    record = active(gateway, call)
    details = call.parsed(UpdateStreamDetails)
    changes = details.model_dump(exclude_none=True, exclude={"stream_pool_id"})
    if details.stream_pool_id is not None and details.stream_pool_id != record.stream_pool_id:
        pool = await pool_meant(gateway, None, details.stream_pool_id)
        changes |= placed(gateway, record, pool)
    return await write_changed(gateway, call, record, changes)


async def change_stream_compartment(gateway: Gateway, call: Call) -> GatewayReply:
    """The stream goes to the default pool of the other compartment."""
    record = active(gateway, call)
    details = call.parsed(ChangeCompartmentDetails)
    pool = await gateway.registry.default_pool(details.compartment_id)
    changes = placed(gateway, record, pool) if pool.id != record.stream_pool_id else {}
    written = await write_changed(gateway, call, record, changes)
    return GatewayReply(headers=written.headers)


def placed(gateway: Gateway, record: StreamRecord, pool: StreamPoolRecord) -> dict[str, Any]:
    require_free(gateway, record.name, pool.id)
    return {"stream_pool_id": pool.id, "compartment_id": pool.compartment_id}


async def write_changed(gateway: Gateway, call: Call, record: StreamRecord, changes: dict[str, Any]) -> GatewayReply:
    changed = record.changed(**changes, etag=gateway.registry.new_etag())
    await gateway.registry.write(STREAM, changed)
    return stream_reply(changed, call, await gateway.registry.log_work("UPDATE_STREAM", changed, UPDATED))


async def delete_stream(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.stream(call.path["streamId"])
    if record.lifecycle_state == DELETED:
        raise unknown(STREAM, record.id)
    require_match(call, record.etag)
    return GatewayReply(status=NO_CONTENT, headers={WORK: await delete(gateway, record)})


async def delete(gateway: Gateway, record: StreamRecord) -> str:
    """First the content, then the record: a delete that stopped half-way can be repeated. Return the work request."""
    if gateway.engine.spec(record.id) is not None:
        await gateway.engine.delete_stream(record.id)
    await gateway.registry.write_deleted(STREAM, record)
    return await gateway.registry.log_work("DELETE_STREAM", record, DELETED)


def active(gateway: Gateway, call: Call) -> StreamRecord:
    """The stream that may be changed, if the ETag that is expected is its own; raises OciError."""
    record = gateway.registry.stream(call.path["streamId"])
    if record.lifecycle_state != ACTIVE:
        raise invalid(f"Stream {record.id} is {record.lifecycle_state}")
    require_match(call, record.etag)
    return record


def require_match(call: Call, etag: str) -> None:
    wanted = call.headers.get("if-match")
    if wanted is not None and wanted.strip('"') not in (etag, "*"):
        raise no_etag_match(etag)


def stream_reply(record: StreamRecord, call: Call, work: str = "") -> GatewayReply:
    headers = {"etag": record.etag, **({"opc_work_request_id": work} if work else {})}
    return model_reply(OciStream.model_validate(shown_as(OciStream, record, call)), **headers)


def shown_as(model: type[StreamSummary], record: StreamRecord, call: Call) -> dict[str, Any]:
    """Messages are served where the resource was asked for."""
    fields = {**record.model_dump(), "messages_endpoint": call.url}
    return model.model_validate(fields).model_dump(mode="json", by_alias=True, exclude_none=True)
