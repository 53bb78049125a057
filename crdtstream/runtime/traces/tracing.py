"""Spans of OpenTelemetry: commands of clients, batches between regions, checkpoints.

Spans have names of commands and numbers; never a key, a field, a value, a password or the name of a stream. They are
made at the edge, around what the node is given and what it hands out, so the node knows nothing of them.

A region sends what it holds when a link is ready, and not for a command. So the span of a send is the root of a trace,
which continues in the region that receives it, and *links* to the spans of what changed the state since the last send
on that link: writes of clients, and batches of others, at most `LINKS_MAX`.

Reference: https://opentelemetry.io/docs/specs/otel/trace/api/
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Thread
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from crdtstream import __version__
from crdtstream.commands.dispatch import find
from crdtstream.connections.context import CommandError
from crdtstream.replication.wire_pb2 import Message
from crdtstream.runtime.links.link import LinkNode
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.traces.links import TracedLinks
from crdtstream.runtime.traces.redis_port import TracedRespServer
from crdtstream.settings.config import Config

LINKS_MAX: Final = 32
# A stop waits so long for spans to leave.
CLOSE_S: Final = 3.0
UNKNOWN: Final = "unknown"
TRACEPARENT: Final = "traceparent"

TraceSpan = Any


def exporting_provider(config: Config) -> Any:
    """A provider that sends spans over OTLP, as protobuf over HTTP, from a thread of its own."""
    endpoint = f"{config.otel_endpoint.rstrip('/')}/v1/traces" if config.otel_endpoint else None
    provider = TracerProvider(resource=resource_of(config), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


def resource_of(config: Config) -> Any:
    """What the region is; variables have precedence."""
    own = {
        "service.name": "crdtstream",
        "service.version": __version__,
        "service.instance.id": config.name,
        "crdtstream.cluster": config.cluster,
        "crdtstream.region": config.region,
    }
    return Resource(own).merge(OTELResourceDetector().detect())


class Tracing:
    """The spans of one region."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("crdtstream", __version__)
        self._propagator = TraceContextTextMapPropagator()
        # What changed the state lately, and how much did so before the first of these.
        self._recent: deque[Any] = deque(maxlen=LINKS_MAX)
        self._noted = 0

    def port(self, loop: Loop) -> TracedRespServer:
        return TracedRespServer(loop, self)

    def links(self, node: LinkNode, effects: Callable[[], int]) -> TracedLinks:
        """The node as links see it; `effects` counts those that are applied."""
        return TracedLinks(node, self, effects)

    def close(self) -> None:
        """Send what is left; a collector that does not answer delays the stop by `CLOSE_S` at most."""
        closing = Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    # Commands

    def command(self, argv: list[bytes]) -> TraceSpan:
        """A request that has arrived."""
        try:
            command = find(argv)
        except CommandError:
            # Whatever the client sent in place of a name is not shown: it may be a password.
            return self._tracer.start_span(UNKNOWN, kind=SpanKind.SERVER)
        name = command.name.replace("|", " ").upper()
        attributes = {
            "db.system.name": "redis",
            "db.operation.name": name,
            "crdtstream.keys": len(command.keys.positions(argv)),
            "crdtstream.writes": command.writes,
        }
        return self._tracer.start_span(name, kind=SpanKind.SERVER, attributes=attributes)

    def answered(self, span: TraceSpan, error: str = "") -> None:
        """The reply is on its way; `error` is its code, or empty."""
        if span.is_recording():
            if error:
                span.set_status(Status(StatusCode.ERROR))
                span.set_attribute("db.response.status_code", error)
            elif span.attributes.get("crdtstream.writes"):
                self._record(span)
        span.end()

    # Batches

    def sent(self, peer: int, message: Message, linked: int) -> int:
        """Note a message with batches, and write the trace into it. `linked` is what this returned for the link's
        message before.
        """
        newer = self._noted - max(linked, self._noted - len(self._recent))
        links = [Link(context) for context in islice(self._recent, len(self._recent) - newer, None)]
        span = self._tracer.start_span(
            "send batches", kind=SpanKind.PRODUCER, attributes=of(message, peer), links=links
        )
        if span.get_span_context().trace_flags.sampled:
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier, set_span_in_context(span))
            message.traceparent = carrier[TRACEPARENT]
        span.end()
        return self._noted

    def received(self, peer: int, message: Message) -> TraceSpan:
        """A message with batches has arrived; its trace goes on here."""
        context = self._propagator.extract({TRACEPARENT: message.traceparent}) if message.traceparent else None
        return self._tracer.start_span(
            "apply batches", context=context, kind=SpanKind.CONSUMER, attributes=of(message, peer)
        )

    def applied(self, span: TraceSpan, effects: int) -> None:
        """The batches are in the log, or wait for others; `effects` were applied."""
        if span.is_recording():
            span.set_attribute("crdtstream.effects", effects)
            if effects:
                self._record(span)
        span.end()

    def _record(self, span: TraceSpan) -> None:
        self._recent.append(span.get_span_context())
        self._noted += 1

    # Checkpoints

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        with self._tracer.start_as_current_span("checkpoint"):
            yield


def of(message: Message, peer: int) -> dict[str, int]:
    payloads = [*message.batches.payloads, *([message.part.payload] if message.HasField("part") else [])]
    return {
        "crdtstream.peer": peer,
        "crdtstream.batches": len(message.batches.payloads),
        "crdtstream.parts": int(message.HasField("part")),
        "crdtstream.payload_bytes": sum(map(len, payloads)),
    }
