"""What the user of a bulk call may do: a call needs the right to the command that does the same, on the keys that it
touches.

    Read                   XRANGE                   Write, Stage       XADD
    Heads, Split           XINFO STREAM             Publish, Discard   XADD, on the stream of the ledger
    Frontiers              XINFO GROUPS             Advance            XACK, and XGROUP CREATE to create groups
    Describe               none

Rights are checked when a call begins, and for each message of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from crdtstream.bulk.errors import BulkError
from crdtstream.connections.access import REASONS, count_refusal
from crdtstream.connections.acl.checks import COMMAND, denial_of, full_reason
from crdtstream.connections.acl.log import TOP_LEVEL, AclLogEntry
from crdtstream.connections.acl.user import User
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context

PERMISSION_DENIED: Final = "PERMISSION_DENIED"
# The requests whose rights are asked for; the key follows.
READING: Final = [b"XRANGE"]
HEADS: Final = [b"XINFO", b"STREAM"]
FRONTIERS: Final = [b"XINFO", b"GROUPS"]
ADDING: Final = [b"XADD"]
ACKNOWLEDGING: Final = [b"XACK"]
CREATING: Final = [b"XGROUP", b"CREATE"]


class BulkCaller:
    """The user of one call, and the host from which it came; `find` returns the command that a request names."""

    __slots__ = ("_find", "host", "user")

    def __init__(self, user: User, host: str, find: Callable[[list[bytes]], Command]) -> None:
        self.user = user
        self.host = host
        self._find = find

    def may(self, request: list[bytes], name: bytes) -> bool:
        argv = [*request, name]
        return self.user.unrestricted or denial_of(self.user, self._find(argv), argv) is None

    def require(self, context: Context, request: list[bytes], names: Iterable[bytes]) -> None:
        """Raise BulkError unless the user may do this with all these streams."""
        if self.user.unrestricted:
            return
        for name in names:
            argv = [*request, name]
            command = self._find(argv)
            denial = denial_of(self.user, command, argv)
            if denial is None:
                continue
            reason = REASONS[denial.kind]
            subject = command.name.encode() if denial.kind == COMMAND else argv[denial.at]
            record_refusal(context, reason, subject, self.user.name, self.host)
            raise BulkError(PERMISSION_DENIED, f"NOPERM {full_reason(denial, self.user, command, argv)}")


def record_refusal(context: Context, reason: str, subject: bytes, username: bytes, host: str) -> None:
    """Count a refusal and put it into ACL LOG."""
    count_refusal(context, reason)
    client = b"addr=%b cmd=bulk user=%b" % (host.encode(), username)
    context.users.log.add(AclLogEntry(reason, TOP_LEVEL, subject, username, client, context.now_ms))
