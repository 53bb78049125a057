"""SLOWLOG, LATENCY and MEMORY: diagnostics of the process.

Commands are timed individually, for SLOWLOG and for INFO commandstats, and nothing else is timed: there are no latency
events and no histograms, and CONFIG shows both as switched off.

MEMORY USAGE is an estimate: the bytes of the entries, plus a fixed overhead for each entry, pending entry, consumer and
group.

Reference: `slowlogCommand`, `latencyCommand` and `memoryCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.clients.client import Client
from crdtstream.clients.command import Command
from crdtstream.clients.context import CommandError, Context, Reply, shown
from crdtstream.clients.slow_log import SlowCommand
from crdtstream.commands.integers import integer
from crdtstream.core.group import Group
from crdtstream.core.stream import Stream
from crdtstream.protocols import replies

SLOWLOG_ARGUMENTS = (2, 3)
SLOWLOG_COUNT = 10
ENTRY_BYTES = 32
PENDING_BYTES = 36
CONSUMER_BYTES = 200
GROUP_BYTES = 2_000
TREE_BYTES = 500
STREAM_BYTES = 1_000

SLOWLOG_HELP = (
    b"SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"GET [<count>]",
    b"    Return the newest <count> slow commands (default: 10, -1 means all):",
    b"    id, timestamp, time in microseconds, arguments, client address, client name.",
    b"LEN",
    b"    Return the length of the slowlog.",
    b"RESET",
    b"    Reset the slowlog.",
    b"HELP",
    b"    Prints this help.",
)
LATENCY_HELP = (
    b"LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"DOCTOR",
    b"    Say that there are no samples.",
    b"HISTOGRAM [COMMAND ...], HISTORY <event>, LATEST",
    b"    Return nothing: latency events are not monitored, see SLOWLOG and INFO commandstats.",
    b"RESET [<event> ...]",
    b"    Return 0, the number of events that were reset.",
    b"HELP",
    b"    Prints this help.",
)
LATENCY_REPORT = (
    b"Latency monitoring is off (latency-monitor-threshold 0) and cannot be switched on: there are no samples."
    b" SLOWLOG GET shows slow commands, INFO commandstats shows the time spent in each command.\n"
)
MEMORY_HELP = (
    b"MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"DOCTOR",
    b"    Return memory problems reports.",
    b"PURGE",
    b"    Accepted; memory is returned to the system automatically.",
    b"STATS",
    b"    Return information about the memory usage of the server.",
    b"USAGE <key> [SAMPLES <count>]",
    b"    Return an estimate of the bytes that <key> uses; SAMPLES is accepted, nothing is sampled.",
    b"HELP",
    b"    Prints this help.",
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


def slow_help(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return help_reply(SLOWLOG_HELP)


def help_reply(lines: tuple[bytes, ...]) -> bytes:
    return replies.array([replies.simple(line) for line in lines])


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


def latency_help(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return help_reply(LATENCY_HELP)


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
    if context.memory_short:
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


def memory_help(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return help_reply(MEMORY_HELP)


ADMIN = ("admin", "loading", "stale")
HELPING = ("loading", "stale")

SLOWLOG = {
    b"GET": Command("slowlog|get", -2, ADMIN, 0, 0, 0, slow_commands),
    b"HELP": Command("slowlog|help", 2, HELPING, 0, 0, 0, slow_help),
    b"LEN": Command("slowlog|len", 2, ADMIN, 0, 0, 0, slow_count),
    b"RESET": Command("slowlog|reset", 2, ADMIN, 0, 0, 0, slow_reset),
}
LATENCY = {
    b"DOCTOR": Command("latency|doctor", 2, (*ADMIN, "noscript"), 0, 0, 0, latency_doctor),
    b"GRAPH": Command("latency|graph", 3, (*ADMIN, "noscript"), 0, 0, 0, latency_graph),
    b"HELP": Command("latency|help", 2, HELPING, 0, 0, 0, latency_help),
    b"HISTOGRAM": Command("latency|histogram", -2, (*ADMIN, "noscript"), 0, 0, 0, no_histograms),
    b"HISTORY": Command("latency|history", 3, (*ADMIN, "noscript"), 0, 0, 0, no_samples),
    b"LATEST": Command("latency|latest", 2, (*ADMIN, "noscript"), 0, 0, 0, no_samples),
    b"RESET": Command("latency|reset", -2, (*ADMIN, "noscript"), 0, 0, 0, latency_reset),
}
MEMORY = {
    b"DOCTOR": Command("memory|doctor", 2, (), 0, 0, 0, memory_doctor),
    b"HELP": Command("memory|help", 2, HELPING, 0, 0, 0, memory_help),
    b"MALLOC-STATS": Command("memory|malloc-stats", 2, (), 0, 0, 0, memory_malloc),
    b"PURGE": Command("memory|purge", 2, (), 0, 0, 0, memory_purge),
    b"STATS": Command("memory|stats", 2, (), 0, 0, 0, memory_statistics),
    b"USAGE": Command("memory|usage", -3, ("readonly",), 2, 2, 1, usage),
}
COMMANDS: list[Command] = [
    Command("slowlog", -2, (), 0, 0, 0, None, SLOWLOG),
    Command("latency", -2, (), 0, 0, 0, None, LATENCY),
    Command("memory", -2, (), 0, 0, 0, None, MEMORY),
]
