"""Bodies of the control plane, and the records behind them.

A record is what is stored: a resource with its ETag and, once it is deleted or over, when it will be forgotten. The
resource is shown without these. States, operations and actions are OCI's words.
"""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import ConfigDict, Field

from crdtstream.oci.models import Body

CREATING: Final = "CREATING"
ACTIVE: Final = "ACTIVE"
DELETED: Final = "DELETED"
FAILED: Final = "FAILED"

# What a work request did to its resource.
CREATED: Final = "CREATED"
UPDATED: Final = "UPDATED"

FreeformTags = dict[str, str]
DefinedTags = dict[str, dict[str, Any]]


class ResourceRecord(Body):
    """Something stored under its ID; it is never changed in place."""

    model_config = ConfigDict(frozen=True)

    id: str
    forgotten_ms: int | None = None

    def changed(self, **fields: Any) -> Self:
        return self.model_copy(update=fields)


# Streams


class CreateStreamDetails(Body):
    name: str
    partitions: int
    compartment_id: str | None = None
    stream_pool_id: str | None = None
    retention_in_hours: int | None = None
    freeform_tags: FreeformTags | None = None
    defined_tags: DefinedTags | None = None


class UpdateStreamDetails(Body):
    stream_pool_id: str | None = None
    freeform_tags: FreeformTags | None = None
    defined_tags: DefinedTags | None = None


class ChangeCompartmentDetails(Body):
    compartment_id: str


class StreamSummary(Body):
    id: str
    name: str
    partitions: int
    compartment_id: str
    stream_pool_id: str
    lifecycle_state: str
    time_created: str
    messages_endpoint: str | None = None
    freeform_tags: FreeformTags = Field(default_factory=dict)
    defined_tags: DefinedTags = Field(default_factory=dict)


class OciStream(StreamSummary):
    retention_in_hours: int
    lifecycle_state_details: str | None = None


class StreamRecord(ResourceRecord, OciStream):
    """A stream; its endpoint is not stored, because each region has its own."""

    etag: str


# Pools


class KafkaSettings(Body):
    """Stored and shown; the Kafka protocol is not served."""

    bootstrap_servers: str | None = None
    auto_create_topics_enable: bool = False
    log_retention_hours: int = 24
    num_partitions: int = 1


class CustomEncryptionKey(Body):
    kms_key_id: str | None = None
    key_state: str = "NONE"


class CreateStreamPoolDetails(Body):
    name: str
    compartment_id: str
    kafka_settings: KafkaSettings | None = None
    custom_encryption_key_details: dict[str, Any] | None = None
    private_endpoint_details: dict[str, Any] | None = None
    freeform_tags: FreeformTags | None = None
    defined_tags: DefinedTags | None = None


class UpdateStreamPoolDetails(Body):
    name: str | None = None
    kafka_settings: KafkaSettings | None = None
    custom_encryption_key_details: dict[str, Any] | None = None
    freeform_tags: FreeformTags | None = None
    defined_tags: DefinedTags | None = None


class StreamPoolSummary(Body):
    id: str
    name: str
    compartment_id: str
    lifecycle_state: str
    time_created: str
    is_private: bool = False
    freeform_tags: FreeformTags = Field(default_factory=dict)
    defined_tags: DefinedTags = Field(default_factory=dict)


class StreamPool(StreamPoolSummary):
    lifecycle_state_details: str | None = None
    kafka_settings: KafkaSettings = Field(default_factory=KafkaSettings)
    custom_encryption_key: CustomEncryptionKey = Field(default_factory=CustomEncryptionKey)


class StreamPoolRecord(ResourceRecord, StreamPool):
    etag: str
    is_default: bool = False


class RetryRecord(ResourceRecord):
    """What a retry token made; `request` is the digest of the body that it came with."""

    request: str
    pool_id: str


# Work requests


class WorkRequestResource(Body):
    entity_type: str
    action_type: str
    identifier: str


class WorkRequestSummary(Body):
    id: str
    operation_type: str
    status: str
    compartment_id: str
    resources: list[WorkRequestResource]
    percent_complete: float
    time_accepted: str
    time_started: str
    time_finished: str


class WorkRequestRecord(ResourceRecord, WorkRequestSummary):
    error: str | None = None
