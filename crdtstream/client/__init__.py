"""Clients over several regions, on redis-py: failover, sessions, producers, consumers. See docs/client.md."""

from crdtstream.client.consumer import AsyncConsumer, Consumer, Entry
from crdtstream.client.errors import Behind, NoRegion, OutcomeUnknown, WritesLost
from crdtstream.client.producer import AsyncProducer, Producer
from crdtstream.client.regions import AsyncRegions, Regions

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncRegions",
    "Behind",
    "Consumer",
    "Entry",
    "NoRegion",
    "OutcomeUnknown",
    "Producer",
    "Regions",
    "WritesLost",
]
