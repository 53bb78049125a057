"""The texts of COMMAND DOCS: for each command a summary, the Redis version that introduced it, its group, its
arguments.

Complexity is left out, because clients treat it as optional. Commands of our own exist since the first version.
Arguments are written in the notation that `syntax` reads; arguments that Redis has and this server lacks are left out.

Reference: Redis `COMMAND DOCS`.
"""

from __future__ import annotations

from crdtstream.clients.command import Command
from crdtstream.commands.syntax import Argument, arguments_of, told
from crdtstream.protocols import replies

TEXT = """\
auth|1.0.0|connection|Authenticates the connection.
bgrewriteaof|1.0.0|server|Takes a checkpoint, so that the log can be truncated.
bgsave|1.0.0|server|Takes a checkpoint in the background.
client|2.4.0|connection|A container for client connection commands.
client getname|2.6.9|connection|Returns the name of the connection.
client help|5.0.0|connection|Returns helpful text about the different subcommands.
client id|5.0.0|connection|Returns the unique client ID of the connection.
client info|6.2.0|connection|Returns information about the connection.
client kill|2.4.0|connection|Terminates open connections.
client list|2.4.0|connection|Lists open connections.
client no-evict|7.0.0|connection|Accepted and shown; nothing is evicted.
client no-touch|7.2.0|connection|Accepted and shown.
client reply|3.2.0|connection|Instructs the server whether to reply to commands.
client setinfo|7.2.0|connection|Sets information specific to the client or connection.
client setname|2.6.9|connection|Sets the connection name.
client unblock|5.0.0|connection|Unblocks a client blocked by a blocking command from a different connection.
command|2.8.13|server|Returns detailed information about all commands.
command count|2.8.13|server|Returns a count of commands.
command docs|7.0.0|server|Returns documentary information about one, multiple or all commands.
command getkeys|2.8.13|server|Extracts the key names from an arbitrary command.
command getkeysandflags|7.0.0|server|Extracts the key names and access flags for an arbitrary command.
command help|5.0.0|server|Returns helpful text about the different subcommands.
command info|2.8.13|server|Returns information about one, multiple or all commands.
command list|7.0.0|server|Returns a list of command names.
config|2.0.0|server|A container for server configuration commands.
config get|2.0.0|server|Returns the effective values of configuration parameters.
config help|5.0.0|server|Returns helpful text about the different subcommands.
config resetstat|2.0.0|server|Resets the server's statistics.
config rewrite|2.8.0|server|Persists the effective configuration to file.
config set|2.0.0|server|Sets configuration parameters in-flight.
copy|6.2.0|generic|Copies a stream to a new key.
crdt.digest||server|Returns a digest of the replicated state, of all or of one key.
crdt.evict||server|Ends the membership of a region's origins for ever.
crdt.members||server|Returns the members of the cluster, and how much of the log is retained for each.
crdt.regions||server|Returns the regions of the cluster as this one sees them.
crdt.startover||server|Replaces this region's state by another region's, and hands over what only this region has.
crdt.vector||server|Returns the vectors of what this region has applied, and of what is durable on its disk.
dbsize|1.0.0|server|Returns the number of keys in the database.
debug|1.0.0|server|Makes a connection sleep.
del|1.0.0|generic|Deletes one or more keys.
discard|2.0.0|transactions|Discards a transaction.
echo|1.0.0|connection|Returns the given string.
exec|1.2.0|transactions|Executes all commands in a transaction.
exists|1.0.0|generic|Determines whether one or more keys exist.
expire|1.0.0|generic|Sets the expiration time of a key in seconds.
expireat|1.2.0|generic|Sets the expiration time of a key to a Unix timestamp.
expiretime|7.0.0|generic|Returns the expiration time of a key as a Unix timestamp.
flushall|1.0.0|server|Removes all keys from all databases.
flushdb|1.0.0|server|Removes all keys from the current database.
hello|6.0.0|connection|Handshakes with the server.
info|1.0.0|server|Returns information and statistics about the server.
keys|1.0.0|generic|Returns all key names that match a pattern.
lastsave|1.0.0|server|Returns the Unix timestamp of the last checkpoint.
latency|2.8.13|server|A container for latency diagnostics commands.
latency doctor|2.8.13|server|Returns a human-readable latency analysis report.
latency graph|2.8.13|server|Returns a latency graph for an event.
latency help|2.8.13|server|Returns helpful text about the different subcommands.
latency histogram|7.0.0|server|Returns the distribution of latencies of commands: none are recorded.
latency history|2.8.13|server|Returns timestamp-latency samples for an event: none are recorded.
latency latest|2.8.13|server|Returns the latest latency samples for all events: none are recorded.
latency reset|2.8.13|server|Resets the latency data for one or more events.
memory|4.0.0|server|A container for memory diagnostics commands.
memory doctor|4.0.0|server|Outputs a memory problems report.
memory help|4.0.0|server|Returns helpful text about the different subcommands.
memory malloc-stats|4.0.0|server|Returns the allocator statistics.
memory purge|4.0.0|server|Asks the allocator to release memory.
memory stats|4.0.0|server|Returns details about memory usage.
memory usage|4.0.0|server|Estimates the memory usage of a key.
multi|1.2.0|transactions|Starts a transaction.
object|2.2.3|generic|A container for object introspection commands.
object encoding|2.2.3|generic|Returns the internal encoding of a key.
object freq|4.0.0|generic|Returns the logarithmic access frequency counter of a key.
object help|6.2.0|generic|Returns helpful text about the different subcommands.
object idletime|2.2.3|generic|Returns the time since the last access to a key.
object refcount|2.2.3|generic|Returns the reference count of a value of a key.
persist|2.2.0|generic|Removes the expiration time of a key.
pexpire|2.6.0|generic|Sets the expiration time of a key in milliseconds.
pexpireat|2.6.0|generic|Sets the expiration time of a key to a Unix milliseconds timestamp.
pexpiretime|7.0.0|generic|Returns the expiration time of a key as a Unix milliseconds timestamp.
ping|1.0.0|connection|Returns the server's liveliness response.
pttl|2.6.0|generic|Returns the expiration time in milliseconds of a key.
quit|1.0.0|connection|Closes the connection.
randomkey|1.0.0|generic|Returns a random key name from the database.
rename|1.0.0|generic|Renames a key and overwrites the destination.
renamenx|1.0.0|generic|Renames a key only when the target key name doesn't exist.
reset|6.2.0|connection|Resets the connection.
save|1.0.0|server|Takes a checkpoint and waits for it.
scan|2.8.0|generic|Iterates over the key names in the database.
select|1.0.0|connection|Changes the selected database.
shutdown|1.0.0|server|Stops the region cleanly.
slowlog|2.2.12|server|A container for slow log commands.
slowlog get|2.2.12|server|Returns the slow log's entries.
slowlog help|6.2.0|server|Returns helpful text about the different subcommands.
slowlog len|2.2.12|server|Returns the number of entries in the slow log.
slowlog reset|2.2.12|server|Clears all entries from the slow log.
time|2.6.0|server|Returns the server time.
touch|3.2.1|generic|Returns the number of existing keys and updates the time they were last accessed.
ttl|1.0.0|generic|Returns the expiration time in seconds of a key.
type|1.0.0|generic|Determines the type of value stored at a key.
unlink|4.0.0|generic|Deletes one or more keys.
unwatch|2.2.0|transactions|Forgets about watched keys of a transaction.
wait|3.0.0|generic|Blocks until other regions have the connection's writes on their disks.
watch|2.2.0|transactions|Monitors changes to keys to determine the execution of a transaction.
xack|5.0.0|stream|Acknowledges messages that were delivered to a consumer group.
xadd|5.0.0|stream|Appends a new message to a stream. Creates the key if it doesn't exist.
xautoclaim|6.2.0|stream|Changes, or acquires, ownership of idle messages in a consumer group.
xclaim|5.0.0|stream|Changes, or acquires, ownership of a message in a consumer group.
xdel|5.0.0|stream|Returns the number of messages after removing them from a stream.
xgroup|5.0.0|stream|A container for consumer groups commands.
xgroup create|5.0.0|stream|Creates a consumer group.
xgroup createconsumer|6.2.0|stream|Creates a consumer in a consumer group.
xgroup delconsumer|5.0.0|stream|Deletes a consumer from a consumer group.
xgroup destroy|5.0.0|stream|Destroys a consumer group.
xgroup help|5.0.0|stream|Returns helpful text about the different subcommands.
xgroup setid|5.0.0|stream|Sets the last-delivered ID of a consumer group.
xinfo|5.0.0|stream|A container for stream introspection commands.
xinfo consumers|5.0.0|stream|Returns a list of the consumers in a consumer group.
xinfo groups|5.0.0|stream|Returns a list of the consumer groups of a stream.
xinfo help|5.0.0|stream|Returns helpful text about the different subcommands.
xinfo stream|5.0.0|stream|Returns information about a stream.
xlen|5.0.0|stream|Returns the number of messages in a stream.
xpending|5.0.0|stream|Returns the information and entries from a stream consumer group's pending entries list.
xrange|5.0.0|stream|Returns the messages from a stream within a range of IDs.
xread|5.0.0|stream|Returns messages from multiple streams with IDs greater than the ones requested.
xreadgroup|5.0.0|stream|Returns new or historical messages from a stream for a consumer in a group.
xrevrange|5.0.0|stream|Returns the messages from a stream within a range of IDs in reverse order.
xsetid|5.0.0|stream|Sets the last-generated ID of a stream.
xtrim|5.0.0|stream|Deletes messages from the beginning of a stream.
"""

# A command that is not listed takes no arguments; an indented line continues the line before it.
ARGUMENTS = """\
auth: [username@6.0.0] password
bgsave: [SCHEDULE@3.2.2]
client kill: filter:<old-format=ip:port!2.8.12 | new-format:<[ID client-id#@2.8.12] | [TYPE client-type:<NORMAL |
    MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB>@2.8.12] | [USER username] | [ADDR addr=ip:port] | [LADDR
    laddr=ip:port@6.2.0] | [SKIPME skipme:<YES | NO>]>...>
client list: [TYPE client-type:<NORMAL | MASTER | REPLICA | PUBSUB>@5.0.0] [ID client-id#@6.2.0...]
client no-evict: enabled:<ON | OFF>
client no-touch: enabled:<ON | OFF>
client reply: action:<ON | OFF | SKIP>
client setinfo: attr:<LIB-NAME libname | LIB-VER libver>
client setname: connection-name
client unblock: client-id# [unblock-type:<TIMEOUT | ERROR>]
command docs: [command-name...]
command getkeys: command [arg...]
command getkeysandflags: command [arg...]
command info: [command-name...]
command list: [FILTERBY filterby:<MODULE module-name | ACLCAT category | PATTERN pattern>]
config get: parameter...
config set: data:(parameter value)...
copy: source destination [DB destination-db#] [REPLACE]
crdt.digest: [stream]
crdt.evict: member:<region# | origin> [FORCE]
crdt.startover: region
debug: SLEEP seconds
del: key...
echo: message
exists: key...
expire: key seconds# [condition:<NX | XX | GT | LT>@7.0.0]
expireat: key unix-time-seconds [condition:<NX | XX | GT | LT>@7.0.0]
expiretime: key
flushall: [flush-type:<ASYNC@4.0.0 | SYNC@6.2.0>]
flushdb: [flush-type:<ASYNC@4.0.0 | SYNC@6.2.0>]
hello: [arguments:(protover# [AUTH auth:(username password)] [SETNAME clientname])]
info: [section...]
keys: pattern
latency graph: event
latency histogram: [command...]
latency history: event
latency reset: [event...]
memory usage: key [SAMPLES count#]
object encoding: key
object freq: key
object idletime: key
object refcount: key
persist: key
pexpire: key milliseconds# [condition:<NX | XX | GT | LT>@7.0.0]
pexpireat: key unix-time-milliseconds [condition:<NX | XX | GT | LT>@7.0.0]
pexpiretime: key
ping: [message]
pttl: key
rename: key newkey
renamenx: key newkey
scan: cursor# [MATCH pattern] [COUNT count#] [TYPE type@6.0.0]
select: index#
shutdown: [save-selector:<NOSAVE | SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]
slowlog get: [count#]
touch: key...
ttl: key
type: key
unlink: key...
wait: numreplicas# timeout#
watch: key...
xack: key group id...
xadd: key [NOMKSTREAM@6.2.0] [trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT count#@6.2.0])]
    id-selector:<* | id> data:(field value)...
xautoclaim: key group consumer min-idle-time start [COUNT count#] [JUSTID]
xclaim: key group consumer min-idle-time id... [IDLE ms#] [TIME unix-time-milliseconds] [RETRYCOUNT count#] [FORCE]
    [JUSTID] [LASTID lastid]
xdel: key id...
xgroup create: key group id-selector:<id | $> [MKSTREAM] [ENTRIESREAD entriesread#=entries-read]
xgroup createconsumer: key group consumer
xgroup delconsumer: key group consumer
xgroup destroy: key group
xgroup setid: key group id-selector:<id | $> [ENTRIESREAD entriesread#=entries-read]
xinfo consumers: key group
xinfo groups: key
xinfo stream: key [full-block:(FULL [COUNT count#])]
xlen: key
xpending: key group [filters:([IDLE min-idle-time#@6.2.0] start end count# [consumer])]
xrange: key start end [COUNT count#]
xread: [COUNT count#] [BLOCK milliseconds#] STREAMS streams:(key... id...)
xreadgroup: GROUP group-block:(group consumer) [COUNT count#] [BLOCK milliseconds#] [NOACK] STREAMS streams:(key...
    id...)
xrevrange: key end start [COUNT count#]
xsetid: key last-id [ENTRIESADDED entries-added#@7.0.0] [MAXDELETEDID max-deleted-id@7.0.0]
xtrim: key trim:(strategy:<MAXLEN | MINID@6.2.0> [operator:<= | ~>] threshold [LIMIT count#@6.2.0])
"""


def rows_of(text: str) -> dict[str, tuple[str, str, str]]:
    """Command name -> summary, version and group."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in text.splitlines():
        name, since, group, summary = line.split("|")
        found[name.replace(" ", "|")] = (summary, since or "0.1.0", group)
    return found


def arguments_by_name(text: str) -> dict[str, list[Argument]]:
    found: dict[str, list[Argument]] = {}
    for line in text.replace("\n    ", " ").splitlines():
        name, _, syntax = line.partition(": ")
        found[name.replace(" ", "|")] = arguments_of(syntax)
    return found


DOCUMENTS = rows_of(TEXT)
ARGUMENTS_BY_NAME = arguments_by_name(ARGUMENTS)


def document(command: Command, protocol: int) -> bytes:
    """The documentation of one command and of its subcommands, as a map."""
    summary, since, group = DOCUMENTS[command.name]
    items = [replies.bulk(text.encode()) for text in ("summary", summary, "since", since, "group", group)]
    if command.name in ARGUMENTS_BY_NAME:
        items += [replies.bulk(b"arguments"), told(ARGUMENTS_BY_NAME[command.name], protocol)]
    if command.subcommands:
        items += [replies.bulk(b"subcommands"), documents(list(command.subcommands.values()), protocol)]
    return replies.mapping(items, protocol)


def documents(commands: list[Command], protocol: int) -> bytes:
    items: list[bytes] = []
    for command in commands:
        items += [replies.bulk(command.name.encode()), document(command, protocol)]
    return replies.mapping(items, protocol)
