"""Tools for tests, in development mode alone: a clock that can be moved, and injected faults.

The clock is that of the gateway and of the partitions in this region, until its process ends: by it cursors expire,
rates refill, records and retry tokens are forgotten, messages are stamped, instances time out and retention ends. The
Redis port and other regions keep their time.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from crdtstream.oci.calls import NO_CONTENT, Call, GatewayReply, json_reply
from crdtstream.oci.errors import OciError
from crdtstream.oci.gateway import Gateway
from crdtstream.oci.injected_faults import FaultRules
from crdtstream.oci.models import Body
from crdtstream.oci.times import rfc3339

OFF: Final = (
    "tools for tests are off: they are served without --oci-keys, and with --oci-limits off or --oci-dev, so start the"
    " region so"
)


class ClockChange(Body):
    advance_ms: int = Field(ge=0)


async def move_clock(gateway: Gateway, call: Call) -> GatewayReply:
    require_tools(gateway)
    gateway.clock.ahead_ms += call.parsed(ClockChange).advance_ms
    gateway.engine.move_clock(gateway.clock.ahead_ms)
    return json_reply({"now": rfc3339(gateway.clock.now_ms()), "aheadMs": gateway.clock.ahead_ms})


async def inject_faults(gateway: Gateway, call: Call) -> GatewayReply:
    """The rules that are given replace those before."""
    require_tools(gateway)
    gateway.faults.replace(call.parsed(FaultRules))
    return GatewayReply(status=NO_CONTENT)


def require_tools(gateway: Gateway) -> None:
    if not gateway.settings.tools:
        raise OciError(404, "NotFound", OFF)


async def health(gateway: Gateway, call: Call) -> GatewayReply:
    return json_reply({"status": "ok"})
