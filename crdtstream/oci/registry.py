"""Streams, pools and work requests as replicated documents.

A document is the JSON of a record. Any region writes it, and the last writer wins; so two regions that create a stream
of the same name at the same time both succeed. A deleted record is shown for 90 days and then forgotten. IDs of default
pools follow from their compartment, so all regions mean the same one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

from crdtstream.oci.engine import Engine
from crdtstream.oci.errors import unknown
from crdtstream.oci.resources import (
    ACTIVE,
    CREATED,
    DELETED,
    FAILED,
    ResourceRecord,
    RetryRecord,
    StreamPoolRecord,
    StreamRecord,
    WorkRequestRecord,
    WorkRequestResource,
)
from crdtstream.oci.times import rfc3339

STREAM: Final = "stream"
POOL: Final = "streampool"
WORK_REQUEST: Final = "workrequest"
RETRY: Final = "retry"
MODELS: Final[dict[str, type[ResourceRecord]]] = {
    STREAM: StreamRecord,
    POOL: StreamPoolRecord,
    WORK_REQUEST: WorkRequestRecord,
    RETRY: RetryRecord,
}
DAY_MS: Final = 86_400_000
DELETED_MS: Final = 90 * DAY_MS
WORK_REQUEST_MS: Final = 7 * DAY_MS
ID_BYTES: Final = 35
PARSED_MAX: Final = 4_096

R = TypeVar("R", bound=ResourceRecord)


class Registry:
    """Reads and writes records; `random_bytes` makes their IDs and ETags."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._engine = engine
        self._now_ms = now_ms
        self._random_bytes = random_bytes

    def now(self) -> str:
        return rfc3339(self._now_ms())

    def new_id(self, kind: str) -> str:
        return ocid(kind, self._random_bytes(ID_BYTES))

    def new_etag(self) -> str:
        return self._random_bytes(16).hex()

    # Records

    def stream(self, id: str) -> StreamRecord:
        """Raises OciError."""
        return self._found(STREAM, id, StreamRecord)

    def pool(self, id: str) -> StreamPoolRecord:
        """Raises OciError."""
        return self._found(POOL, id, StreamPoolRecord)

    def work_request(self, id: str) -> WorkRequestRecord:
        """Raises OciError."""
        return self._found(WORK_REQUEST, id, WorkRequestRecord)

    def retry(self, id: str) -> RetryRecord | None:
        document = self._engine.documents(RETRY).get(id)
        record = None if document is None else parsed(RetryRecord, document)
        return None if record is None or self._is_old(record) else record

    def served(self, id: str) -> StreamRecord:
        """The stream, if messages can be put into it and read; raises OciError."""
        record = self.stream(id)
        if record.lifecycle_state != ACTIVE or self._engine.spec(id) is None:
            raise unknown(STREAM, id)
        return record

    def streams(self) -> list[StreamRecord]:
        return self._all(STREAM, StreamRecord)

    def pools(self) -> list[StreamPoolRecord]:
        return self._all(POOL, StreamPoolRecord)

    def work_requests(self) -> list[WorkRequestRecord]:
        return self._all(WORK_REQUEST, WorkRequestRecord)

    def _found(self, kind: str, id: str, model: type[R]) -> R:
        document = self._engine.documents(kind).get(id)
        record = None if document is None else parsed(model, document)
        if record is None or self._is_old(record):
            raise unknown({POOL: "stream pool", WORK_REQUEST: "work request"}.get(kind, kind), id)
        return record

    def _all(self, kind: str, model: type[R]) -> list[R]:
        records = [parsed(model, document) for document in self._engine.documents(kind).values()]
        return [record for record in records if not self._is_old(record)]

    def _is_old(self, record: ResourceRecord) -> bool:
        return record.forgotten_ms is not None and record.forgotten_ms <= self._now_ms()

    # Changes

    async def write(self, kind: str, record: ResourceRecord) -> None:
        await self._engine.write_document(kind, record.id, record.json_bytes())

    async def write_deleted(self, kind: str, record: StreamRecord | StreamPoolRecord) -> None:
        deleted = record.changed(lifecycle_state=DELETED, forgotten_ms=self._now_ms() + DELETED_MS)
        await self.write(kind, deleted)

    async def forget_old(self) -> None:
        """Remove the documents of records that are no longer shown."""
        for kind, model in MODELS.items():
            for id, document in self._engine.documents(kind).items():
                if self._is_old(parsed(model, document)):
                    await self._engine.write_document(kind, id, None)

    async def default_pool(self, compartment_id: str) -> StreamPoolRecord:
        """The pool of streams that are created in a compartment; made when it is first needed."""
        id = ocid(POOL, hashlib.sha256(compartment_id.encode()).digest()[:ID_BYTES])
        document = self._engine.documents(POOL).get(id)
        if document is not None:
            return parsed(StreamPoolRecord, document)
        record = StreamPoolRecord(
            id=id,
            name="DefaultPool",
            compartment_id=compartment_id,
            is_default=True,
            lifecycle_state=ACTIVE,
            time_created=self.now(),
            etag=self.new_etag(),
        )
        await self.write(POOL, record)
        return record

    async def log_work(
        self, operation: str, record: StreamRecord | StreamPoolRecord, action: str = CREATED, error: str = ""
    ) -> str:
        """Write the work request of an operation, which is over by now; return its ID."""
        now = self.now()
        kind = STREAM if isinstance(record, StreamRecord) else POOL
        resource = WorkRequestResource(entity_type=kind, action_type=action, identifier=record.id)
        request = WorkRequestRecord(
            id=self.new_id("streamworkrequest"),
            operation_type=operation,
            status=FAILED if error else "SUCCEEDED",
            compartment_id=record.compartment_id,
            resources=[resource],
            percent_complete=100.0,
            time_accepted=now,
            time_started=now,
            time_finished=now,
            error=error or None,
            forgotten_ms=self._now_ms() + WORK_REQUEST_MS,
        )
        await self.write(WORK_REQUEST, request)
        return request.id


def ocid(kind: str, data: bytes) -> str:
    return f"ocid1.{kind}.oc1..{base64.b32encode(data).decode().lower().rstrip('=')}"


def parsed(model: type[R], document: bytes) -> R:
    record = parse(model, document)
    assert isinstance(record, model)
    return record


@lru_cache(PARSED_MAX)
def parse(model: type[ResourceRecord], document: bytes) -> ResourceRecord:
    """Records are frozen, so one serves all who ask."""
    return model.model_validate_json(document)
