"""Defences of the Redis port against hostile clients: HTTP requests, and guessed passwords.

A web page can make a browser send a POST to any address that the browser reaches, including loopback, with commands in
its body. So a connection that sends something like HTTP is closed, and the rest of its input is ignored. A wrong
password is answered only after `auth_failure_delay_ms`, during which the client can do nothing else.

Both are counted, and logged at a limited rate (alarms.py).

Reference: `securityWarningCommand` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.access import record_refusal
from crdtstream.connections.acl.log import AUTH, IN_MULTI, TOP_LEVEL
from crdtstream.connections.alarms import Alarm
from crdtstream.connections.calling import error_reply
from crdtstream.connections.client import Client
from crdtstream.connections.context import CommandError, Context, Reply, Waiter
from crdtstream.status.events import Notice

HTTP_WORDS: Final = (b"POST", b"HOST:")
WRONGPASS: Final = "WRONGPASS invalid username-password pair or user is disabled."


def warn(context: Context, alarm: Alarm, event: str, text: str) -> None:
    warning = alarm.text_due(text, context.now_ms)
    if warning:
        context.notices.append(Notice(event, warning))


def is_http(argv: list[bytes]) -> bool:
    return argv[0].upper() in HTTP_WORDS


def hang_up(context: Context, client: Client) -> bytes:
    """Close the client at once, without a reply."""
    text = f"client {client.id} ({client.address}) closed: it sent HTTP, as a web page does that attacks this port"
    warn(context, context.alarms.http, "http-client", text)
    context.statistics.http_clients += 1
    context.drop(client)
    return b""


class DeniedWaiter(Waiter):
    """A client that sent a wrong password: it waits only for its error."""

    def __init__(self, client: Client, deadline_ms: int) -> None:
        super().__init__(client, [], deadline_ms)

    def serve(self, context: Context) -> bytes | None:
        return None

    def expired(self, context: Context) -> bytes:
        context.statistics.tally(self.client.last_command).failed += 1
        return error_reply(context, CommandError(WRONGPASS))


def deny(context: Context, client: Client, command: bytes, username: bytes) -> Reply:
    """Reject a wrong password, after a delay. The wait does not count against `blocked_clients_max`: at that limit, the
    delayed error would be replaced by an immediate one.
    """
    within = TOP_LEVEL if client.transaction is None else IN_MULTI
    record_refusal(context, client, AUTH, within, command, username)
    text = f"client {client.id} ({client.address}) sent a wrong user or password"
    warn(context, context.alarms.passwords, "wrong-password", text)
    delay_ms = context.limits.auth_failure_delay_ms
    if not delay_ms:
        raise CommandError(WRONGPASS)
    context.parking.park(DeniedWaiter(client, context.now_ms + delay_ms))
    return None
