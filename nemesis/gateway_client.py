"""A client of the OCI gateway over one kept connection, for load: it signs nothing and hides no status."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, NamedTuple

PATH = "/20180418"
TIMEOUT_S = 30.0


class Answer(NamedTuple):
    status: int
    body: Any
    next_cursor: str


class GatewayClient:
    """One connection, which is opened again after it broke."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Raise OSError or HTTPException if no reply came: then the call may have been executed or not."""
        data = b"" if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, PATH + path, data, {"content-type": "application/json"})
            reply = self._connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return Answer(reply.status, json.loads(text) if text else None, reply.headers.get("opc-next-cursor", ""))

    def create_stream(self, name: str, partitions: int) -> str:
        answer = self.call(
            "POST", "/streams", {"name": name, "partitions": partitions, "compartmentId": "ocid1.compartment.oc1..load"}
        )
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"no stream {name}: {answer.status} {answer.body}")
        return str(answer.body["id"])

    def put(self, stream: str, values: list[bytes]) -> list[dict[str, Any]]:
        """The results by message; each has an offset, or an error."""
        rows = [{"key": encoded(value), "value": encoded(value)} for value in values]
        answer = self.call("POST", f"/streams/{stream}/messages", {"messages": rows})
        if answer.status != http.HTTPStatus.OK:
            return [{"error": str(answer.status)}] * len(values)
        return list(answer.body["entries"])

    def group_cursor(self, stream: str, group: str, instance: str, timeout_ms: int) -> str:
        details = {"type": "TRIM_HORIZON", "groupName": group, "instanceName": instance, "timeoutInMs": timeout_ms}
        answer = self.call("POST", f"/streams/{stream}/groupCursors", details)
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"no cursor of {group}: {answer.status} {answer.body}")
        return str(answer.body["value"])

    def get(self, stream: str, cursor: str, limit: int) -> Answer:
        return self.call("GET", f"/streams/{stream}/messages?cursor={cursor}&limit={limit}")

    def owners(self, stream: str, group: str) -> list[str]:
        """The owner of each partition; empty without one."""
        answer = self.call("GET", f"/streams/{stream}/groups/{group}")
        return [row.get("reservedInstance", "") for row in answer.body["reservations"]]

    def close(self) -> None:
        self._connection.close()


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def decoded(text: str) -> bytes:
    return base64.b64decode(text)
