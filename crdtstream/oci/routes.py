"""Every operation: its method, its path below the version, and what answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from crdtstream.oci import groups, messages, pools, streams, tools, work_requests
from crdtstream.oci.calls import Call, GatewayReply
from crdtstream.oci.errors import OciError
from crdtstream.oci.gateway import Gateway

Handler = Callable[[Gateway, Call], Awaitable[GatewayReply]]


class Route(NamedTuple):
    """An unsigned one is answered without a signature, and below no version."""

    method: str
    path: str
    operation: str
    handler: Handler
    signed: bool = True


async def no_connect_harness(gateway: Gateway, call: Call) -> GatewayReply:
    raise OciError(404, "NotFound", "connect harnesses belong to Kafka Connect, which this gateway does not serve")


STREAM: Final = "/streams/{streamId}"
POOL: Final = "/streampools/{streamPoolId}"
HARNESS: Final = "/connectharnesses/{connectHarnessId}"
WORK: Final = "/workRequests/{workRequestId}"
# A group name may hold slashes.
GROUP: Final = STREAM + "/groups/{groupName:path}"
MOVE: Final = "/actions/changeCompartment"

ROUTES: Final = (
    Route("POST", f"{STREAM}/messages", "PutMessages", messages.put_messages),
    Route("GET", f"{STREAM}/messages", "GetMessages", groups.get_messages),
    Route("POST", f"{STREAM}/cursors", "CreateCursor", messages.create_cursor),
    Route("POST", f"{STREAM}/groupCursors", "CreateGroupCursor", groups.create_group_cursor),
    Route("POST", f"{STREAM}/commit", "ConsumerCommit", groups.consumer_commit),
    Route("POST", f"{STREAM}/heartbeat", "ConsumerHeartbeat", groups.consumer_heartbeat),
    Route("GET", GROUP, "GetGroup", groups.get_group),
    Route("PUT", GROUP, "UpdateGroup", groups.update_group),
    Route("POST", "/streams", "CreateStream", streams.create_stream),
    Route("GET", "/streams", "ListStreams", streams.list_streams),
    Route("GET", STREAM, "GetStream", streams.get_stream),
    Route("PUT", STREAM, "UpdateStream", streams.update_stream),
    Route("DELETE", STREAM, "DeleteStream", streams.delete_stream),
    Route("POST", STREAM + MOVE, "ChangeStreamCompartment", streams.change_stream_compartment),
    Route("POST", "/streampools", "CreateStreamPool", pools.create_stream_pool),
    Route("GET", "/streampools", "ListStreamPools", pools.list_stream_pools),
    Route("GET", POOL, "GetStreamPool", pools.get_stream_pool),
    Route("PUT", POOL, "UpdateStreamPool", pools.update_stream_pool),
    Route("DELETE", POOL, "DeleteStreamPool", pools.delete_stream_pool),
    Route("POST", POOL + MOVE, "ChangeStreamPoolCompartment", pools.change_stream_pool_compartment),
    Route("POST", "/connectharnesses", "CreateConnectHarness", no_connect_harness),
    Route("GET", "/connectharnesses", "ListConnectHarnesses", no_connect_harness),
    Route("GET", HARNESS, "GetConnectHarness", no_connect_harness),
    Route("PUT", HARNESS, "UpdateConnectHarness", no_connect_harness),
    Route("DELETE", HARNESS, "DeleteConnectHarness", no_connect_harness),
    Route("POST", HARNESS + MOVE, "ChangeConnectHarnessCompartment", no_connect_harness),
    Route("GET", "/workRequests", "ListWorkRequests", work_requests.list_work_requests),
    Route("GET", WORK, "GetWorkRequest", work_requests.get_work_request),
    Route("GET", f"{WORK}/errors", "ListWorkRequestErrors", work_requests.list_work_request_errors),
    Route("GET", f"{WORK}/logs", "ListWorkRequestLogs", work_requests.list_work_request_logs),
    Route("GET", "/healthz", "Health", tools.health, signed=False),
    Route("POST", "/dev/clock", "MoveClock", tools.move_clock, signed=False),
    Route("POST", "/dev/faults", "InjectFaults", tools.inject_faults, signed=False),
)
