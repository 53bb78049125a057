"""A target: every command with its arguments, on a region without a node.

An input is a run of a state machine: requests of three clients to a region that has streams, groups and pending
entries, some of them from another region, and time that passes between them. At the end another replica applies the
effects.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, get_state_machine_test, initialize, precondition, rule

from crdtstream.connections.client import Client
from crdtstream.core.digest import Digesting
from crdtstream.core.effects import Batch
from crdtstream.core.replica import Replica
from crdtstream.settings.config import Limits
from fuzz.sentences import EVERY, STREAM_COMMANDS, requests, spoilt
from fuzz.target import Target
from simulations.portrait import plain
from tests.commands.harness import Region, read_reply

CLIENTS = 3
KINDS = b"+-:$*%~>_#,(=!|"
END = b"+the end\r\n"
FAR_REGION = (
    *[f"XADD s {number}-2 f far" for number in range(5, 20)],
    "XADD u 7-7 f far",
    "XGROUP CREATE s h 5",
    "XDEL s 9-2",
)
PREPARED = (
    *[f"XADD s {number}-1 f v{number}" for number in range(1, 13)],
    "XADD t 1-1 a b c d",
    "PEXPIRE t 5000",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE empty g $ MKSTREAM",
    "XREADGROUP GROUP g c COUNT 6 STREAMS s >",
    "XREADGROUP GROUP g d COUNT 3 STREAMS s >",
    "XACK s g 1-1 2-1 4-1",
    "XDEL s 3-1",
)
# Reached by small streams and few requests.
SMALL = Limits(
    blocked_clients_max=1,
    copy_entries_max=20,
    digest_entries_max=3,
    dump_slice_bytes=1_024,
    entry_bytes_max=2_000,
    merged_ranges_bytes_max=300,
    query_bytes_max=300,
    slow_log_entries_max=2,
    stream_node_entries_max=3,
)
WAITS_MS = (0, 1, 100, 6_000, 10**9)
WHO = st.integers(0, CLIENTS - 1)
SHOWN = 10


def rarely(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(1, one_in).map(lambda drawn: drawn == one_in)


class RegionStateMachine(RuleBasedStateMachine):
    """A region under test, what it sent, and the requests so far."""

    @initialize(
        small=rarely(3),
        id_mode=st.sampled_from(("liberal", "strict", "semi-strict")),
        memory_short=rarely(16),
        disk_full=rarely(16),
        loading=rarely(64),
        password=rarely(16),
    )
    def begin(
        self,
        small: bool = False,
        id_mode: str = "liberal",
        memory_short: bool = False,
        disk_full: bool = False,
        loading: bool = False,
        password: bool = False,
    ) -> None:
        """Some regions have no memory, a full disk, a password, or are still loading."""
        self.asked: list[list[bytes]] = []
        self.batches: list[Batch] = []
        self.failed = False
        self.region = Region(id_mode=id_mode, limits=SMALL if small else Limits())
        self._prepare()
        standing = self.region.context.standing
        standing.memory_short = memory_short
        standing.writable = not disk_full
        standing.loading = "a log" if loading else ""
        # Its number matters: a region may not evict itself.
        self.region.configure(region=1, requirepass="v" if password else "")
        self.clients = [self.region.connect() for _ in range(CLIENTS)]
        self.state = self.portrait()

    def _prepare(self) -> None:
        """The other region writes at the same time, so its IDs may lie between."""
        self._add()
        far = Region(origin=2)
        for line in FAR_REGION:
            far.line(line)
        batch = far.replica.drain().batch
        assert batch is not None
        self.batches.append(batch)
        self.region.replica.apply_batch(batch)

    def _add(self) -> None:
        """What most requests are about, also after it was removed; its IDs need a mode that allows them."""
        mode = self.region.context.settings.config.id_mode
        self.region.configure(id_mode="liberal")
        friend = self.region.connect()
        for line in PREPARED:
            self.region.line(line, client=friend)
        self.region.configure(id_mode=mode)
        self.end_turn()

    @rule(argv=requests(STREAM_COMMANDS))
    def ask_about_a_stream(self, argv: list[bytes]) -> None:
        self.ask(0, argv)

    @rule(who=WHO, argv=requests(EVERY))
    def ask_anything(self, who: int, argv: list[bytes]) -> None:
        self.ask(who, argv)

    @rule(who=WHO, argv=spoilt(STREAM_COMMANDS))
    def ask_badly(self, who: int, argv: list[bytes]) -> None:
        self.ask(who, argv)

    @precondition(lambda self: any(client.transaction is not None for client in self.clients))
    @rule()
    def end_transactions(self) -> None:
        for who, client in enumerate(self.clients):
            if client.transaction is not None:
                self.ask(who, [b"EXEC"])

    def ask(self, who: int, argv: list[bytes]) -> None:
        self.asked.append(argv)
        try:
            self._ask(self.client(who), argv)
        except Exception as fault:
            self.failed = True
            fault.add_note("requests:\n" + "\n".join(f"  {argv!r}" for argv in self.asked[-SHOWN:]))
            raise

    def _ask(self, client: Client, argv: list[bytes]) -> None:
        reply = self.region.run(*argv, client=client)
        for one in (reply or b"", *self.region.late_replies(client)):
            check_reply(one)
        state = self.portrait()
        if reply and reply.startswith(b"-"):
            assert state == self.state, f"an error changed something: {reply!r}\n{differences(self.state, state)}"
            self.region.check()
        self.state = state

    @rule(wait_ms=st.sampled_from(WAITS_MS))
    def go_on(self, wait_ms: int) -> None:
        """Time passes, and the stream is there again."""
        self.region.pass_time(wait_ms)
        if not self.region.replica.keyspace.find((0, b"s")):
            self._add()
        self.end_turn()
        self.state = self.portrait()

    def client(self, who: int) -> Client:
        """One that was closed, or that waits, makes room for another."""
        client = self.clients[who]
        if client.closing or client.parked:
            self.region.context.unpark(client)
            self.region.context.end_transaction(client)
            known = not self.region.context.users.requires_login()
            client = self.clients[who] = self.region.connect(authenticated=known)
        return client

    def teardown(self) -> None:
        """What holds at the end, unless something failed before, or nothing began."""
        if getattr(self, "failed", True):
            return
        self.end_turn()
        self.region.check()
        assert digest(self.region.replica) == self.digest_elsewhere(), "another replica has other state"

    def portrait(self) -> list[Any]:
        """All that is held under each key, replicated or local."""
        keyspace = self.region.replica.keyspace
        return [{name: plain(stream) for name, stream in database.items()} for database in keyspace.databases]

    def end_turn(self) -> None:
        self.region.replica.acknowledge_all()
        batch = self.region.replica.drain().batch
        if batch is not None:
            self.batches.append(batch)

    def digest_elsewhere(self) -> bytes | None:
        """What a replica that applies the effects has."""
        other = Replica(3)
        for batch in self.batches:
            other.apply_batch(batch)
        other.check()
        return digest(other)


def digest(replica: Replica) -> bytes | None:
    digesting = Digesting(replica)
    while not digesting.step(1 << 30):
        pass
    return digesting.digest


def check_reply(reply: bytes) -> None:
    """Assert that these bytes are whole replies."""
    stream = BytesIO(reply + END)
    while stream.tell() < len(reply):
        one = read_reply(stream)
        assert one[0] in KINDS, f"no reply begins like this: {one[:40]!r}"
        assert one.endswith(b"\r\n"), f"a reply does not end: {one[-40:]!r}"
    assert stream.read() == END, f"a reply is cut off: {reply[-40:]!r}"


def differences(before: list[Any], after: list[Any]) -> str:
    """The keys that differ, with both states."""
    found = []
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        found += [f"{number} {name!r}:\n  {old.get(name)}\n  {new.get(name)}" for name in changed]
    return "\n".join(found)


def test(with_settings: settings) -> object:
    return get_state_machine_test(RegionStateMachine, settings=with_settings)


TARGET = Target("commands", test, batch=50)
