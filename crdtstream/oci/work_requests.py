"""Work requests: what became of an operation. All are over when they can be seen, and are kept for seven days."""

from __future__ import annotations

from typing import Any

from crdtstream.oci.calls import Call, GatewayReply, json_reply, model_reply
from crdtstream.oci.errors import missing
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.paging import PageKey, page_of
from crdtstream.oci.resources import WorkRequestRecord, WorkRequestSummary


async def get_work_request(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.work_request(call.path["workRequestId"])
    return model_reply(WorkRequestSummary.model_validate(record.model_dump()))


async def list_work_requests(gateway: Gateway, call: Call) -> GatewayReply:
    if not any(call.query.get(name) for name in ("compartmentId", "resourceId", "workRequestId")):
        raise missing("compartmentId, resourceId or workRequestId is required: give one of them")
    records = [record for record in gateway.registry.work_requests() if is_asked(call, record)]
    return items_reply(call, [(accepted(record), summary(record)) for record in records])


def is_asked(call: Call, record: WorkRequestRecord) -> bool:
    pairs = (
        ("compartmentId", record.compartment_id),
        ("workRequestId", record.id),
        ("resourceId", record.resources[0].identifier),
    )
    return all(call.query.get(name) in (None, value) for name, value in pairs)


def accepted(record: WorkRequestRecord) -> PageKey:
    return record.time_accepted, record.id


def summary(record: WorkRequestRecord) -> dict[str, Any]:
    shown = WorkRequestSummary.model_validate(record.model_dump())
    return shown.model_dump(mode="json", by_alias=True, exclude_none=True)


async def list_work_request_errors(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.work_request(call.path["workRequestId"])
    rows = [{"code": "Failed", "message": record.error, "timestamp": record.time_finished}] if record.error else []
    return items_reply(call, [(accepted(record), row) for row in rows])


async def list_work_request_logs(gateway: Gateway, call: Call) -> GatewayReply:
    record = gateway.registry.work_request(call.path["workRequestId"])
    row = {"message": f"{record.operation_type} {record.status}", "timestamp": record.time_finished}
    return items_reply(call, [(accepted(record), row)])


def items_reply(call: Call, rows: list[tuple[PageKey, dict[str, Any]]]) -> GatewayReply:
    descending = call.choice("sortOrder", "DESC", "ASC", "DESC") == "DESC"
    page, headers = page_of(call, rows, lambda row: row[0], descending)
    return GatewayReply(json_reply({"items": [row for _, row in page]}).body, headers=headers)
