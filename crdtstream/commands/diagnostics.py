"""SLOWLOG, LATENCY, MEMORY and MONITOR: diagnostics of the process.

Commands are timed individually, for SLOWLOG and for INFO commandstats, and nothing else is timed: there are no latency
events and no histograms, and CONFIG shows both as switched off.

MEMORY USAGE is an estimate: the bytes of the entries, plus a fixed overhead for each entry, pending entry, consumer and
group.

Reference: `slowlogCommand`, `latencyCommand` and `memoryCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.integers import integer
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row, keys_at
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.slow_log import SlowCommand
from crdtstream.core.groups.group import Group
from crdtstream.core.streams.stream import Stream
from crdtstream.protocols import replies

SLOWLOG_ARGUMENTS = (2, 3)
SLOWLOG_COUNT = 10
ENTRY_BYTES = 32
PENDING_BYTES = 36
CONSUMER_BYTES = 200
GROUP_BYTES = 2_000
TREE_BYTES = 500
STREAM_BYTES = 1_000

LATENCY_REPORT = (
    b"Latency monitoring is off (latency-monitor-threshold 0) and cannot be switched on: there are no samples."
    b" SLOWLOG GET shows slow commands, INFO commandstats shows the time spent in each command.\n"
)

# SLOWLOG


def slow_commands(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) not in SLOWLOG_ARGUMENTS:
        raise CommandError(
            f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try SLOWLOG HELP."
        )
    error = "ERR count should be greater than or equal to -1"
    count = integer(argv[2], error) if len(argv) > 2 else SLOWLOG_COUNT
    if count < -1:
        raise CommandError(error)
    return replies.array([slow_command(entry) for entry in context.slow_log.newest(count)])


def slow_command(entry: SlowCommand) -> bytes:
    return replies.array(
        [
            replies.integer(entry.number),
            replies.integer(entry.time_s),
            replies.integer(entry.took_us),
            replies.bulk_array(entry.arguments),
            replies.bulk(entry.address.encode()),
            replies.bulk(entry.client_name),
        ]
    )


def slow_count(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(len(context.slow_log.entries))


def slow_reset(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.slow_log.entries.clear()
    return replies.OK


# LATENCY


def no_samples(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.EMPTY_ARRAY


def no_histograms(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.mapping([], client.protocol)


def latency_reset(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.ZERO


def latency_graph(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError(f"ERR No samples available for event '{shown(argv[2])}'")


def latency_doctor(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.verbatim(LATENCY_REPORT, client.protocol)


# MEMORY


def usage(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES count]."""
    for at in range(3, len(argv), 2):
        if argv[at].upper() != b"SAMPLES" or at + 1 == len(argv) or integer(argv[at + 1]) < 0:
            raise CommandError("ERR syntax error")
    stream = context.replica.keyspace.peek((client.database, argv[2]))
    if stream is None:
        return replies.null_bulk(client.protocol)
    return replies.integer(len(argv[2]) + stream_bytes(stream))


def stream_bytes(stream: Stream) -> int:
    total = STREAM_BYTES
    for tree in stream.trees.values():
        total += TREE_BYTES + tree.byte_count + ENTRY_BYTES * tree.count
    for name, group in stream.groups.items():
        total += len(name) + group_bytes(group)
    return total


def group_bytes(group: Group) -> int:
    consumers = sum(CONSUMER_BYTES + len(name) for name in group.consumers)
    return GROUP_BYTES + consumers + PENDING_BYTES * group.pending.count


def memory_doctor(context: Context, client: Client, argv: list[bytes]) -> Reply:
    used, most = context.about.memory_bytes, context.limits.memory_bytes_max
    text = f"{used} bytes are resident, and there is no limit.\n"
    if most:
        text = f"{used} bytes are resident, {used * 100 // most}% of maxmemory.\n"
    if context.standing.memory_short:
        text += "Commands that need more memory are rejected: trim or delete streams, or raise maxmemory.\n"
    return replies.verbatim(text.encode(), client.protocol)


def memory_statistics(context: Context, client: Client, argv: list[bytes]) -> Reply:
    about, databases = context.about, context.replica.keyspace.databases
    rows = [
        (b"peak.allocated", about.memory_peak_bytes),
        (b"total.allocated", about.memory_bytes),
        (b"keys.count", sum(len(context.replica.keyspace.keys(at)) for at in range(len(databases)))),
        (b"dataset.bytes", sum(stream_bytes(stream) for data in databases for stream in data.values())),
    ]
    items = [item for name, value in rows for item in (replies.bulk(name), replies.integer(value))]
    return replies.mapping(items, client.protocol)


def memory_purge(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.OK


def memory_malloc(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.verbatim(b"Stats not supported for the current allocator", client.protocol)


# MONITOR


def monitor(context: Context, client: Client, argv: list[bytes]) -> Reply:
    client.monitoring = True
    context.monitors[client.id] = client
    return replies.OK


SLOWLOG = [
    Command(
        "slowlog|get",
        slow_commands,
        arity=-2,
        flags="admin loading stale",
        since="2.2.12",
        summary="Returns the slow log's entries.",
        syntax="[count#]",
        help=(
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
        ),
    ),
    help_row("slowlog", since="6.2.0", line="    Print this help."),
    Command(
        "slowlog|len",
        slow_count,
        arity=2,
        flags="admin loading stale",
        since="2.2.12",
        summary="Returns the number of entries in the slow log.",
        help=("LEN", "    Return the length of the slowlog."),
    ),
    Command(
        "slowlog|reset",
        slow_reset,
        arity=2,
        flags="admin loading stale",
        since="2.2.12",
        summary="Clears all entries from the slow log.",
        help=("RESET", "    Reset the slowlog."),
    ),
]
LATENCY = [
    Command(
        "latency|doctor",
        latency_doctor,
        arity=2,
        flags="admin loading stale noscript",
        since="2.8.13",
        summary="Returns a human-readable latency analysis report.",
        help=("DOCTOR", "    Return a human readable latency analysis report."),
    ),
    Command(
        "latency|graph",
        latency_graph,
        arity=3,
        flags="admin loading stale noscript",
        since="2.8.13",
        summary="Returns a latency graph for an event.",
        syntax="event",
        help=("GRAPH <event>", "    Return an ASCII latency graph for the <event> class."),
    ),
    help_row("latency", since="2.8.13", line="    Print this help."),
    Command(
        "latency|histogram",
        no_histograms,
        arity=-2,
        flags="admin loading stale noscript",
        since="7.0.0",
        summary="Returns the distribution of latencies of commands: none are recorded.",
        syntax="[command...]",
        help=(
            "HISTOGRAM [COMMAND ...]",
            "    Return a cumulative distribution of latencies in the format of a histogram for the specified command"
            " names.",
            "    If no commands are specified then all histograms are replied.",
        ),
    ),
    Command(
        "latency|history",
        no_samples,
        arity=3,
        flags="admin loading stale noscript",
        since="2.8.13",
        summary="Returns timestamp-latency samples for an event: none are recorded.",
        syntax="event",
        help=("HISTORY <event>", "    Return time-latency samples for the <event> class."),
    ),
    Command(
        "latency|latest",
        no_samples,
        arity=2,
        flags="admin loading stale noscript",
        since="2.8.13",
        summary="Returns the latest latency samples for all events: none are recorded.",
        help=("LATEST", "    Return the latest latency samples for all events."),
    ),
    Command(
        "latency|reset",
        latency_reset,
        arity=-2,
        flags="admin loading stale noscript",
        since="2.8.13",
        summary="Resets the latency data for one or more events.",
        syntax="[event...]",
        help=(
            "RESET [<event> ...]",
            "    Reset latency data of one or more <event> classes.",
            "    (default: reset all data for all event classes)",
        ),
    ),
]
MEMORY = [
    Command(
        "memory|doctor",
        memory_doctor,
        arity=2,
        since="4.0.0",
        summary="Outputs a memory problems report.",
        help=("DOCTOR", "    Return memory problems reports."),
    ),
    help_row("memory", since="4.0.0", line="    Print this help."),
    Command(
        "memory|malloc-stats",
        memory_malloc,
        arity=2,
        since="4.0.0",
        summary="Returns the allocator statistics.",
        help=("MALLOC-STATS", "    Return internal statistics report from the memory allocator."),
    ),
    Command(
        "memory|purge",
        memory_purge,
        arity=2,
        since="4.0.0",
        summary="Asks the allocator to release memory.",
        help=("PURGE", "    Attempt to purge dirty pages for reclamation by the allocator."),
    ),
    Command(
        "memory|stats",
        memory_statistics,
        arity=2,
        since="4.0.0",
        summary="Returns details about memory usage.",
        help=("STATS", "    Return information about the memory usage of the server."),
    ),
    Command(
        "memory|usage",
        usage,
        arity=-3,
        flags="readonly",
        counts_itself=True,
        keys=keys_at(2, "RO"),
        since="4.0.0",
        summary="Estimates the memory usage of a key.",
        syntax="key [SAMPLES count#]",
        help=(
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "monitor",
        monitor,
        arity=1,
        flags="admin noscript loading stale",
        since="1.0.0",
        group="server",
        summary="Listens for all requests that this region runs, in real time.",
    ),
    Command(
        "slowlog",
        arity=-2,
        since="2.2.12",
        group="server",
        summary="A container for slow log commands.",
        subcommands=SLOWLOG,
    ),
    Command(
        "latency",
        arity=-2,
        since="2.8.13",
        group="server",
        summary="A container for latency diagnostics commands.",
        subcommands=LATENCY,
        help_order="doctor graph history latest reset histogram",
    ),
    Command(
        "memory",
        arity=-2,
        since="4.0.0",
        group="server",
        summary="A container for memory diagnostics commands.",
        subcommands=MEMORY,
    ),
]
