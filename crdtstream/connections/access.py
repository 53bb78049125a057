"""What a client may do: its user, whether requests have to be checked, and what becomes of refused ones.

A client is `unrestricted` if it needs no login, or has logged in, and its user may do everything; `recognise_all` must
follow every change of users. Each refusal is counted, and noted in ACL LOG.

Reference: `acl.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.acl.checks import CHANNEL, COMMAND, KEY, Denial, denial_of, short_reason
from crdtstream.connections.acl.log import AUTH, AclLogEntry
from crdtstream.connections.acl.user import User
from crdtstream.connections.acl.users import open_user
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.description import line_of
from crdtstream.connections.subscriptions import KINDS, PATTERN

REASONS = {COMMAND: "command", KEY: "key", CHANNEL: "channel"}


def log_in(context: Context, client: Client, user: User) -> None:
    client.user = user
    client.authenticated = True
    context.recognise(client)


def log_out(context: Context, client: Client) -> None:
    """Return to the user of a new connection."""
    client.user = user = context.users.default
    client.authenticated = user.nopass and user.enabled
    context.recognise(client)


# Refusing


def require_rights(context: Context, client: Client, command: Command, argv: list[bytes], within: str) -> None:
    """Raise if the client's user may not make this request."""
    denial = denial_of(client.user, command, argv)
    if denial is not None:
        client.last_command = command.name
        record_denial(context, client, command, argv, denial, within)
        raise CommandError(f"NOPERM {short_reason(denial, client.user, command)}")


def record_denial(
    context: Context, client: Client, command: Command, argv: list[bytes], denial: Denial, within: str
) -> None:
    subject = command.name.encode() if denial.kind == COMMAND else argv[denial.at]
    record_refusal(context, client, REASONS[denial.kind], within, subject, client.user.name)


def record_refusal(context: Context, client: Client, reason: str, within: str, subject: bytes, username: bytes) -> None:
    count_refusal(context, reason)
    line = line_of(context.now_ms, client)
    context.users.log.add(AclLogEntry(reason, within, subject, username, line, context.now_ms))


def count_refusal(context: Context, reason: str) -> None:
    statistics = context.statistics
    if reason == AUTH:
        statistics.denied_passwords += 1
    elif reason == REASONS[COMMAND]:
        statistics.denied_commands += 1
    elif reason == REASONS[KEY]:
        statistics.denied_keys += 1
    else:
        statistics.denied_channels += 1


# Changing users


def change_user(context: Context, caller: Client, user: User) -> None:
    """Add a user, or change the one of its name; its clients have the new rights from now on. Those that listen to a
    channel which they may not listen to any more are closed.
    """
    kept = context.users.put(user)
    context.recognise_all()
    close_listeners(context, caller, kept)


def close_listeners(context: Context, caller: Client | None, user: User) -> None:
    for client in list(context.clients.values()):
        if client.user is user and client.subscribed and not may_listen(user, client):
            close_client(context, caller, client)


def may_listen(user: User, client: Client) -> bool:
    """True if each channel and pattern that the client listens to is allowed by one of the selectors."""
    for kind in KINDS:
        for name in client.topics[kind]:
            if not any(selector.allows_channel(name, kind == PATTERN) for selector in user.selectors):
                return False
    return True


def remove_user(context: Context, caller: Client | None, name: bytes) -> bool:
    """Remove a user, and close its clients; false if there is none of this name."""
    user = context.users.remove(name)
    if user is None:
        return False
    for client in list(context.clients.values()):
        if client.user is user:
            client.user = context.users.default
            client.authenticated = client.unrestricted = False
            close_client(context, caller, client)
    return True


def replace_users(context: Context, caller: Client | None, users: dict[bytes, User]) -> None:
    """Change to the users of an ACL file, which a client has had read, or a signal."""
    for name in context.users.names():
        if name not in users and name != context.users.default.name:
            remove_user(context, caller, name)
    adopt_users(context, users)
    for user in context.users.all():
        close_listeners(context, caller, user)


def adopt_users(context: Context, users: dict[bytes, User]) -> None:
    """Add and change these users. Without a default user among them, that is as the settings say."""
    if context.users.default.name not in users:
        context.users.put(open_user())
        context.users.require_password(context.settings.password())
    for user in users.values():
        context.users.put(user)
    context.recognise_all()


def close_client(context: Context, caller: Client | None, client: Client) -> None:
    """Close at once, but the caller only after its reply."""
    if client is caller:
        context.close(client)
    else:
        context.drop(client)
