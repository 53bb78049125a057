r"""RESP requests: parsing bytes into argument lists.

A request is a multibulk (`*2\r\n$4\r\nXLEN\r\n$1\r\nx\r\n`) or an inline line (`XLEN x\r\n`). The parser accepts and
rejects the same input as redis-server 7, with the same error texts, however the bytes are split. As in Redis, a header
line ends at CR, a NUL hides the rest of its line, and neither the byte after that CR nor the two bytes after a value
are checked. `arguments_max` is stricter than Redis.

Invariant: `_argv` holds the complete arguments of the current request, `_missing` says how many it still lacks (0:
there is no current request), and the bytes after them are in `_rest` (an unfinished line) or in `_value` (an argument
of known size). Memory grows with the bytes received, never with a declared length. Every limit is inclusive: a line or
value of exactly that many bytes is accepted.

Reference: Redis protocol specification; `processInlineBuffer`, `processMultibulkBuffer` and `sdssplitargs` of Redis.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from crdtstream.core.values.entry_id import PLAIN_DIGITS

KIB: Final = 1024
INLINE_BYTES_MAX: Final = 64 * KIB
BULK_BYTES_MAX: Final = 512 * KIB * KIB
ARGUMENTS_MAX: Final = KIB * KIB
QUERY_BYTES_MAX: Final = KIB * KIB * KIB
UNAUTHENTICATED_ARGUMENTS_MAX: Final = 10
UNAUTHENTICATED_BULK_BYTES_MAX: Final = 16 * KIB

STAR: Final = 42
DOLLAR: Final = 36
ZERO: Final = 48
CR: Final = 13
BULK_BYTES_MIN: Final = 6
REQUEST_BYTES_MIN: Final = 4 + BULK_BYTES_MIN
PLAIN_NUMBER_MAX: Final = 10**9
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
LINE_END_BYTES: Final = 2

NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
SPACES: Final = re.compile(rb"[ \t\n\v\f\r]*")
# Only the part without quotes is possessive: CPython 3.11.2 does not backtrack correctly past a possessive group. The
# quoted parts backtrack little anyway, because no two of their alternatives begin alike.
ARGUMENT: Final = re.compile(
    rb"""([^ \t\n\r"']*+)(?:"((?:\\.|[^"\\])*)"|'((?:\\'|\\(?!')|[^'\\])*)')?(?=[ \t\n\v\f\r]|\Z)""", re.DOTALL
)
ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
ESCAPED: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


class ProtocolError(Exception):
    """The client violated the protocol: execute `requests`, reply with `error(text)`, close the connection."""

    def __init__(self, text: bytes, requests: list[list[bytes]]) -> None:
        super().__init__(text)
        self.text = text
        self.requests = requests


class RequestParser:
    """The unread input of one client.

    While `authenticated` is false, Redis's limits for unauthenticated clients apply. If a request exceeds one of them
    after complete requests, those must run first, because one of them may be AUTH: `paused` is then true, and
    `feed(b"")` continues.
    """

    __slots__ = (
        "_argv",
        "_failure",
        "_missing",
        "_read_bytes",
        "_rest",
        "_size",
        "_value",
        "arguments_max",
        "authenticated",
        "bulk_bytes_max",
        "inline_bytes_max",
        "paused",
        "query_bytes_max",
    )

    def __init__(
        self,
        authenticated: bool = True,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        bulk_bytes_max: int = BULK_BYTES_MAX,
        arguments_max: int = ARGUMENTS_MAX,
        query_bytes_max: int = QUERY_BYTES_MAX,
    ) -> None:
        self.authenticated = authenticated
        self.inline_bytes_max = inline_bytes_max
        self.bulk_bytes_max = bulk_bytes_max
        self.arguments_max = arguments_max
        self.query_bytes_max = query_bytes_max
        self.paused = False
        self._failure = b""
        self._argv: list[bytes] = []
        self._missing = 0
        self._read_bytes = 0
        self._rest = b""
        self._value = bytearray()
        self._size = -1

    def feed(self, data: bytes) -> list[list[bytes]]:
        """The requests completed by `data`. After a ProtocolError every call raises the same error again."""
        requests: list[list[bytes]] = []
        if self._failure:
            raise ProtocolError(self._failure, requests)
        if self._size >= 0:
            self._value += data
            if len(self._value) >= self._size + LINE_END_BYTES:
                self._read(self._finish_value(requests), requests)
        else:
            self._read(self._rest + data if self._rest else data, requests)
        if self.held_bytes() > self.query_bytes_max:
            raise self._fail(b"query buffer limit exceeded", requests)
        return requests

    def held_bytes(self) -> int:
        """The number of bytes received of the current request."""
        return self._read_bytes + len(self._rest) + len(self._value)

    def check(self) -> None:
        assert self._missing >= 0 and (self._missing > 0 or (not self._argv and self._read_bytes == 0))
        assert self._size < 0 or (self._missing > 0 and not self._rest)
        assert self._size >= 0 or not self._value
        assert len(self._value) < self._size + LINE_END_BYTES or not self._value

    # Parsing

    def _read(self, buffer: bytes, requests: list[list[bytes]]) -> None:
        self._rest = b""
        self.paused = False
        at = 0
        end = len(buffer)
        while at < end:
            after = self._step(buffer, at, requests)
            if after == at:
                self._rest = buffer[at:]
                break
            at = after

    def _step(self, buffer: bytes, at: int, requests: list[list[bytes]]) -> int:
        """Consume the next part of the input. Returns where it ends, or `at` if more bytes are needed first."""
        if self._missing > 0:
            return self._read_arguments(buffer, at, requests)
        if buffer[at] != STAR:
            return self._read_inline(buffer, at, requests)
        after = read_requests(buffer, at, requests, self._arguments_limit(), self._bulk_limit())
        return after if after > at else self._read_count(buffer, at, requests)

    def _arguments_limit(self) -> int:
        return self.arguments_max if self.authenticated else min(self.arguments_max, UNAUTHENTICATED_ARGUMENTS_MAX)

    def _bulk_limit(self) -> int:
        return self.bulk_bytes_max if self.authenticated else min(self.bulk_bytes_max, UNAUTHENTICATED_BULK_BYTES_MAX)

    def _read_inline(self, buffer: bytes, at: int, requests: list[list[bytes]]) -> int:
        newline = self._find(buffer, b"\n", at, b"too big inline request", requests)
        if newline < 0:
            return at
        line_end = newline - 1 if newline > at and buffer[newline - 1] == CR else newline
        argv = split_arguments(buffer[at:line_end])
        if argv is None:
            raise self._fail(b"unbalanced quotes in request", requests)
        if argv:
            requests.append(argv)
        return newline + 1

    def _read_count(self, buffer: bytes, at: int, requests: list[list[bytes]]) -> int:
        line_end = self._find(buffer, b"\r", at, b"too big mbulk count string", requests)
        after = line_end + LINE_END_BYTES
        if line_end < 0 or after > len(buffer):
            return at
        count = parse_number(buffer[at + 1 : line_end])
        if count is None or count > self.arguments_max:
            raise self._fail(b"invalid multibulk length", requests)
        if count > self._arguments_limit():
            return self._refuse_stranger(b"unauthenticated multibulk length", at, requests)
        if count > 0:
            self._missing = count
            self._read_bytes = after - at
        return after

    def _read_arguments(self, buffer: bytes, at: int, requests: list[list[bytes]]) -> int:
        known = len(self._argv)
        after = read_arguments(buffer, at, self._missing, self._argv, self._bulk_limit())
        self._missing -= len(self._argv) - known
        if after == at:
            after = self._read_size(buffer, at, requests)
        self._read_bytes += after - at - len(self._value)
        if self._missing == 0:
            self._finish_request(requests)
        return after

    def _read_size(self, buffer: bytes, at: int, requests: list[list[bytes]]) -> int:
        """Read `$n`, and the value after it or the part of the value that has arrived."""
        line_end = self._find(buffer, b"\r", at, b"too big bulk count string", requests)
        begin = line_end + LINE_END_BYTES
        if line_end < 0 or begin > len(buffer):
            return at
        if buffer[at] != DOLLAR:
            raise self._fail(b"expected '$', got '%c'" % buffer[at], requests)
        size = parse_number(buffer[at + 1 : line_end])
        if size is None or size < 0 or size > self.bulk_bytes_max:
            raise self._fail(b"invalid bulk length", requests)
        if size > self._bulk_limit():
            return self._refuse_stranger(b"unauthenticated bulk length", at, requests)
        if begin + size + LINE_END_BYTES > len(buffer):
            self._value += buffer[begin:]
            self._size = size
            return len(buffer)
        self._argv.append(buffer[begin : begin + size])
        self._missing -= 1
        return begin + size + LINE_END_BYTES

    def _finish_value(self, requests: list[list[bytes]]) -> bytes:
        """Complete the current value; returns the bytes after it."""
        view = memoryview(self._value)
        after = self._size + LINE_END_BYTES
        self._argv.append(bytes(view[: self._size]))
        rest = bytes(view[after:])
        self._value = bytearray()
        self._size = -1
        self._read_bytes += after
        self._missing -= 1
        if self._missing == 0:
            self._finish_request(requests)
        return rest

    def _finish_request(self, requests: list[list[bytes]]) -> None:
        requests.append(self._argv)
        self._argv = []
        self._read_bytes = 0

    # Refusing

    def _find(self, buffer: bytes, mark: bytes, at: int, too_big: bytes, requests: list[list[bytes]]) -> int:
        """Where the line at `at` ends, or -1. Like `strchr` in Redis, the search stops at a NUL."""
        found = buffer.find(mark, at, at + self.inline_bytes_max + 1)
        if found >= 0 and buffer.find(b"\0", at, found) < 0:
            return found
        if len(buffer) - at > self.inline_bytes_max:
            raise self._fail(too_big, requests)
        return -1

    def _refuse_stranger(self, reason: bytes, at: int, requests: list[list[bytes]]) -> int:
        if not requests:
            raise self._fail(reason, requests)
        self.paused = True
        return at

    def _fail(self, reason: bytes, requests: list[list[bytes]]) -> ProtocolError:
        self._failure = b"ERR Protocol error: " + reason
        self._argv = []
        self._missing = 0
        self._read_bytes = 0
        self._rest = b""
        self._value = bytearray()
        self._size = -1
        return ProtocolError(self._failure, requests)


# The fast path: these two functions consume only what is complete and written in the usual form, and leave the rest.


def read_requests(buffer: bytes, at: i64, requests: list[list[bytes]], arguments_max: i64, bulk_bytes_max: i64) -> i64:
    """Consume whole multibulk requests; returns where the last one ends."""
    last = len(buffer) - REQUEST_BYTES_MIN
    while at <= last and buffer[at] == STAR:
        argv: list[bytes] = []
        after = read_request(buffer, at, argv, arguments_max, bulk_bytes_max)
        if after == at:
            break
        requests.append(argv)
        at = after
    return at


def read_request(buffer: bytes, at: i64, argv: list[bytes], arguments_max: i64, bulk_bytes_max: i64) -> i64:
    """Append the arguments of the whole multibulk request at a star to `argv`; returns where it ends. If it returns
    `at`, what was appended means nothing.
    """
    # A count of one or two digits; anything else is left to `_read_count`, which knows the errors.
    count: i64 = buffer[at + 1] - ZERO
    if count < 1 or count > 9:
        return at
    begin: i64 = at + 4
    if buffer[at + 2] != CR:
        tail: i64 = buffer[at + 2] - ZERO
        if tail < 0 or tail > 9 or buffer[at + 3] != CR:
            return at
        count = count * 10 + tail
        begin = at + 5
    if count > arguments_max:
        return at
    after = read_arguments(buffer, begin, count, argv, bulk_bytes_max)
    return at if len(argv) < count else after


def after_first(buffer: bytes, at: i64, count: i64) -> i64:
    """Where the first `count` arguments end of a request at a star that `read_request` takes."""
    begin: i64 = at + (4 if buffer[at + 2] == CR else 5)
    return read_arguments(buffer, begin, count, [], BULK_BYTES_MAX)


def read_arguments(buffer: bytes, at: i64, count: i64, argv: list[bytes], bulk_bytes_max: i64) -> i64:
    """Append up to `count` complete arguments to `argv`; returns where the last one ends."""
    end: i64 = len(buffer)
    while count > 0 and at + BULK_BYTES_MIN <= end and buffer[at] == DOLLAR:
        size: i64 = buffer[at + 1] - ZERO
        if size < 0 or size > 9:
            break
        begin: i64 = at + 2
        digit: i64 = buffer[begin]
        while digit != CR:
            # A sign, a leading zero or too many digits: left to `_read_size`.
            if size < 1 or size >= PLAIN_NUMBER_MAX or digit < ZERO or digit > 57 or begin + 1 == end:
                return at
            size = size * 10 + digit - ZERO
            begin += 1
            digit = buffer[begin]
        begin += LINE_END_BYTES
        after: i64 = begin + size + LINE_END_BYTES
        if size > bulk_bytes_max or after > end:
            break
        argv.append(buffer[begin : begin + size])
        at = after
        count -= 1
    return at


def plain_number(text: bytes) -> i64:
    """A decimal of at most `PLAIN_DIGITS` digits without a leading zero, as most numbers are; -1 for any other text."""
    size: i64 = len(text)
    if size == 0 or size > PLAIN_DIGITS or (size > 1 and text[0] == ZERO):
        return -1
    number: i64 = 0
    for at in range(size):
        digit: i64 = text[at] - ZERO
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number


def parse_number(text: bytes) -> int | None:
    """A signed 64-bit decimal as Redis accepts it in headers: no plus sign, no leading zero; None if it is not one."""
    if not NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if I64_MIN <= number <= I64_MAX else None


def split_arguments(line: bytes) -> list[bytes] | None:
    """The arguments of an inline request, quoted as in `sdssplitargs`; None if its quotes are unbalanced."""
    argv: list[bytes] = []
    at = skip_spaces(line, 0)
    while at < len(line):
        match = ARGUMENT.match(line, at)
        if match is None:
            return None
        bare, double, single = match.groups(b"")
        argv.append(bare + ESCAPE.sub(unescape, double) + single.replace(b"\\'", b"'"))
        at = skip_spaces(line, match.end())
    return argv


def skip_spaces(line: bytes, at: int) -> int:
    match = SPACES.match(line, at)
    return at if match is None else match.end()


def unescape(match: re.Match[bytes]) -> bytes:
    code: bytes | None = match.group(1)
    if code is not None:
        return bytes.fromhex(code.decode())
    character: bytes = match.group(2)
    return ESCAPED.get(character, character)
