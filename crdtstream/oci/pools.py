"""Stream pools: create, get, list, update, delete, and move to another compartment.

Every compartment has a default pool, which cannot be deleted; the streams of another pool are deleted with it. A retry
token makes CreateStreamPool happen once: within 24 hours the same token answers with the same pool.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from crdtstream.oci.calls import NO_CONTENT, Call, GatewayReply, json_reply, model_reply
from crdtstream.oci.errors import OciError, invalid, unknown
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.paging import listed
from crdtstream.oci.registry import DAY_MS, POOL, RETRY, STREAM
from crdtstream.oci.resources import (
    ACTIVE,
    CREATING,
    DELETED,
    UPDATED,
    ChangeCompartmentDetails,
    CreateStreamPoolDetails,
    KafkaSettings,
    RetryRecord,
    StreamPool,
    StreamPoolRecord,
    StreamPoolSummary,
    UpdateStreamPoolDetails,
)
from crdtstream.oci.streams import WORK, delete, require_match

RETRY_TOKEN: Final = "opc-retry-token"
NOT_SERVED: Final = "{} is not served by this gateway: leave it out"


async def create_stream_pool(gateway: Gateway, call: Call) -> GatewayReply:
    details = call.parsed(CreateStreamPoolDetails)
    require_served(details.custom_encryption_key_details, details.private_endpoint_details)
    if not details.name:
        raise invalid("name is empty: give the pool a name")
    record = retried(gateway, call)
    if record is None:
        await gateway.registry.forget_old()
        record = await created(gateway, details)
        await remember(gateway, call, record)
    work = await gateway.registry.log_work("CREATE_STREAM_POOL", record)
    return pool_reply(record.changed(lifecycle_state=CREATING), work)


def require_served(encryption: dict[str, Any] | None, endpoint: dict[str, Any] | None = None) -> None:
    if encryption and encryption.get("kmsKeyId"):
        raise invalid(NOT_SERVED.format("customEncryptionKeyDetails"))
    if endpoint:
        raise invalid(NOT_SERVED.format("privateEndpointDetails"))


def retried(gateway: Gateway, call: Call) -> StreamPoolRecord | None:
    """What an earlier request with the same token made; raises OciError if that request was another one."""
    earlier = gateway.registry.retry(token_id(call)) if RETRY_TOKEN in call.headers else None
    if earlier is None:
        return None
    if earlier.request != digest(call.body):
        text = "opc-retry-token was used for another request within 24 hours: use a new one"
        raise OciError(409, "InvalidatedRetryToken", text)
    return gateway.registry.pool(earlier.pool_id)


async def remember(gateway: Gateway, call: Call, record: StreamPoolRecord) -> None:
    if RETRY_TOKEN in call.headers:
        until_ms = gateway.clock.now_ms() + DAY_MS
        row = RetryRecord(id=token_id(call), request=digest(call.body), pool_id=record.id, forgotten_ms=until_ms)
        await gateway.registry.write(RETRY, row)


def token_id(call: Call) -> str:
    return digest(call.headers[RETRY_TOKEN].encode())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def created(gateway: Gateway, details: CreateStreamPoolDetails) -> StreamPoolRecord:
    record = StreamPoolRecord(
        id=gateway.registry.new_id(POOL),
        name=details.name,
        compartment_id=details.compartment_id,
        kafka_settings=details.kafka_settings or KafkaSettings(),
        lifecycle_state=ACTIVE,
        time_created=gateway.registry.now(),
        freeform_tags=details.freeform_tags or {},
        defined_tags=details.defined_tags or {},
        etag=gateway.registry.new_etag(),
    )
    await gateway.registry.write(POOL, record)
    return record


async def get_stream_pool(gateway: Gateway, call: Call) -> GatewayReply:
    return pool_reply(gateway.registry.pool(call.path["streamPoolId"]))


async def list_stream_pools(gateway: Gateway, call: Call) -> GatewayReply:
    call.asked("compartmentId")
    page, headers = listed(call, gateway.registry.pools())
    return GatewayReply(json_reply([shown_as(StreamPoolSummary, record) for record in page]).body, headers=headers)


async def update_stream_pool(gateway: Gateway, call: Call) -> GatewayReply:
    record = active(gateway, call)
    details = call.parsed(UpdateStreamPoolDetails)
    require_served(details.custom_encryption_key_details)
    names = ("name", "kafka_settings", "freeform_tags", "defined_tags")
    changes = {name: value for name in names if (value := getattr(details, name)) is not None}
    return await write_changed(gateway, record, changes)


async def change_stream_pool_compartment(gateway: Gateway, call: Call) -> GatewayReply:
    """The streams of the pool go with it."""
    record = active(gateway, call)
    require_ordinary(record, "moved")
    place = {"compartment_id": call.parsed(ChangeCompartmentDetails).compartment_id}
    for stream in gateway.registry.streams():
        if stream.stream_pool_id == record.id:
            await gateway.registry.write(STREAM, stream.changed(**place, etag=gateway.registry.new_etag()))
    written = await write_changed(gateway, record, place)
    return GatewayReply(headers=written.headers)


async def write_changed(gateway: Gateway, record: StreamPoolRecord, changes: dict[str, Any]) -> GatewayReply:
    changed = record.changed(**changes, etag=gateway.registry.new_etag())
    await gateway.registry.write(POOL, changed)
    return pool_reply(changed, await gateway.registry.log_work("UPDATE_STREAM_POOL", changed, UPDATED))


async def delete_stream_pool(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.pool(call.path["streamPoolId"])
    if record.lifecycle_state == DELETED:
        raise unknown("stream pool", record.id)
    require_match(call, record.etag)
    require_ordinary(record, "deleted")
    for stream in gateway.registry.streams():
        if stream.stream_pool_id == record.id and stream.lifecycle_state != DELETED:
            await delete(gateway, stream)
    await gateway.registry.write_deleted(POOL, record)
    work = await gateway.registry.log_work("DELETE_STREAM_POOL", record, DELETED)
    return GatewayReply(status=NO_CONTENT, headers={WORK: work})


def require_ordinary(record: StreamPoolRecord, done: str) -> None:
    if record.is_default:
        raise invalid(f"{record.id} is the default stream pool of its compartment and cannot be {done}")


def active(gateway: Gateway, call: Call) -> StreamPoolRecord:
    record = gateway.registry.pool(call.path["streamPoolId"])
    if record.lifecycle_state != ACTIVE:
        raise invalid(f"Stream pool {record.id} is {record.lifecycle_state}")
    require_match(call, record.etag)
    return record


def pool_reply(record: StreamPoolRecord, work: str = "") -> GatewayReply:
    headers = {"etag": record.etag, **({"opc_work_request_id": work} if work else {})}
    return model_reply(StreamPool.model_validate(record.model_dump()), **headers)


def shown_as(model: type[StreamPoolSummary], record: StreamPoolRecord) -> dict[str, Any]:
    shown = model.model_validate(record.model_dump())
    return shown.model_dump(mode="json", by_alias=True, exclude_none=True)
