"""What the bulk port does with the bytes of a call: nothing, until its caller is known.

Left to gRPC, a request would be decoded before anything looks at its metadata, and one that is malformed would be an
error of the server with a traceback. So the handlers take bytes, admit the call, and decode then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from crdtstream.bulk import bulk_pb2 as bulk
from crdtstream.bulk.bulk_pb2_grpc import BulkServicer
from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError

SERVICE = bulk.DESCRIPTOR.services_by_name["Bulk"]

Admitting = Callable[[grpc.aio.ServicerContext[Any, Any]], AbstractAsyncContextManager[object]]
CallContext = grpc.aio.ServicerContext[Any, Any]


class CallWork(Protocol):
    """A method of the servicer; what it returns is awaited or iterated over."""

    def __call__(self, request: Any, context: CallContext, /) -> Any: ...


def handlers_of(calls: BulkServicer, admitted: Admitting) -> grpc.GenericRpcHandler:
    """`admitted` runs a call from its admission to its end, whose errors become statuses."""
    methods = {method.name: handler_of(getattr(calls, method.name), method, admitted) for method in SERVICE.methods}
    return grpc.method_handlers_generic_handler(SERVICE.full_name, methods)


def handler_of(work: CallWork, method: MethodDescriptor, admitted: Admitting) -> grpc.RpcMethodHandler[Any, Any]:
    kind = GetMessageClass(method.input_type)
    write = GetMessageClass(method.output_type).SerializeToString
    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(taking_many(work, kind, admitted), response_serializer=write)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(giving_many(work, kind, admitted), response_serializer=write)
    return grpc.unary_unary_rpc_method_handler(taking_one(work, kind, admitted), response_serializer=write)


def taking_one(work: CallWork, kind: type[Message], admitted: Admitting) -> Any:
    async def handle(data: bytes, context: CallContext) -> Any:
        async with admitted(context):
            return await work(decoded(kind, data), context)

    return handle


def taking_many(work: CallWork, kind: type[Message], admitted: Admitting) -> Any:
    async def handle(messages: AsyncIterator[bytes], context: CallContext) -> Any:
        async with admitted(context):
            return await work(each_decoded(kind, messages), context)

    return handle


def giving_many(work: CallWork, kind: type[Message], admitted: Admitting) -> Any:
    async def handle(data: bytes, context: CallContext) -> AsyncIterator[Any]:
        async with admitted(context):
            async for reply in work(decoded(kind, data), context):
                yield reply

    return handle


async def each_decoded(kind: type[Message], messages: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for data in messages:
        yield decoded(kind, data)


def decoded(kind: type[Message], data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        text = f"the message of {len(data)} bytes is no {kind.DESCRIPTOR.full_name}: send it as the contract has it"
        raise BulkError(INVALID_ARGUMENT, text) from error
