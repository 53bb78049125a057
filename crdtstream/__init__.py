"""crdtstream: an active-active stream store.

Every region runs a node that serves reads and writes locally over the Redis Streams protocol, keeps one entry tree for
each writing origin, and exchanges effects with the other regions over gRPC. Regions converge without coordination.

**Shape.** The core is a pure machine: commands, messages and ticks go in; records, messages and replies come out. It
uses no clock, no random source, no socket and no file, except a stopwatch that the runtime supplies to time commands
for statistics. The runtime performs the output in the order of the fields of `Ready`, and that order is a contract:
append to the log first, then reply; peers pull what was appended.

    0 core                    vectors, IDs, blocks, entry trees, streams, groups, the replica
    1 protocols               RESP requests and replies; the codec of batches and records
    2 clients                 connections to the Redis port, and what their commands see
      commands, replication   a function and a row for each command, by families; sessions, members, transfers, audit
      serving, bulk           requests run in turns; calls of the bulk port, a slice at a time
      partitions              partitioned streams and their groups, which the OCI gateway serves
      storage                 log and checkpoint on a disk port, real or simulated; independent of the node above it
    3 node                    one region
    4 runtime                 asyncio turns, gRPC links, the Redis port, metrics and health, traces
    5 demo, admin, cli        composition of all parts
      oci                     the gateway for clients of OCI Streaming, imported only where its port is given

In addition, `spark` is a client of the bulk port that runs in processes of its own and imports only the contract.
`processes` starts regions as processes, for the demo and for all that tests or measures regions from outside.
`scenarios` is the format of the texts that the demo plays on processes and the simulator on simulated machines.
`migration` moves streams between Redis servers and regions (`crdtstream import`, `crdtstream export`).

**Route of one XADD.** `runtime.redis.connections` (bytes) -> `protocols.requests` (argv) -> `node` -> `serving`
(client) -> `commands.dispatch`, `commands.streams` (arguments, ID) -> `core.replica` (dot, effect) -> `core.stream`,
`core.entries.entry_tree`, `core.entries.block`. Then `runtime.turns` takes `node.ready()`: `replication.log.turn` has
encoded the batch (`protocols.codec`), `storage.log` appends it, the reply is sent, and each `runtime.links.link` pulls
what its peer lacks (`replication.links.session`, `replication.links.feed`). On the far side: `runtime.links.link` ->
`node` -> `replication.exchange.exchange` -> session -> `replication.exchange.arrivals`, `replication.log.inbox` (gap,
dependencies, room) -> `replication.log.turn` -> `core.applying`, where the tree links the block; then the log, and
progress is reported back.

A pipeline of XADDs to one key takes this route once, as a burst (`commands.bursts`, `core.entries.bursts`); only the
first request is parsed, and the fields of all are taken as they arrived (`protocols.alike`).

**Numbers.** Compiled code makes an object of each number that leaves an `array`, so where IDs are searched or compared,
columns are read as fixed-width integers (`core.entries.raw_columns`).

**Memory.** Full blocks that nobody reads are compressed while the region is idle, and opened when they are read
(`core.entries.packed_block`, `core.entries.column_layout`, `core.packing_walk`, `runtime.packer`). Checkpoints hold
them compressed, and a start opens only those that a trim cut (`storage.blocks`). Scattered removals are recorded as
deleted rows of a block, and cut out together (`core.entries.deleted_rows`, `core.entries.block_list`). A group keeps a
cursor behind its last read (`core.groups.read_cursor`).

**Route of one bulk Write.** `runtime.bulk.server` (gRPC, admission, slices) -> `runtime.bulk.calls` (messages) ->
`bulk.rows` (every row checked) -> `bulk.writing` (IDs, blocks) -> `core.replica`, one effect for each block; then as
for an XADD. The call is answered once all of its turns are in the log.

**Route of one state transfer.** A peer that needs older records than the log has (`replication.log.history`,
`replication.links.feed`) receives a whole state (`replication.links.handover`). `replication.transfer.snapshot`
captures it key by key, and a key that is about to change right before that (`core.keyspace.Observer`).
`replication.transfer.sending` sends chunks, `replication.transfer.staging` collects them, each as a record of the log,
and `core.applying` joins them as one state (`core.joining`).

**Route of one XACK.** ... -> `commands.groups` -> `core.replica` (a local fact) -> `core.groups.group`,
`core.groups.pending`: the pending entry leaves. At the end of the turn the replica asks each changed group for new
runs, and prepares `Acknowledged` only if there are any. On the far side: ... -> `core.applying` -> `core.groups.group`:
union of runs; pending entries inside them leave.

**Causality.** An origin is one run of a region's process: every start creates a new one, a number with the region in
its lowest byte and random bits above, so that no dot ever names two effects (`replication.origins.birth`). A dot is
an origin and a counter, and names one effect. Effects travel in batches of one origin, one contiguous range of counters
and one causal context, of which a batch carries what it gained since the previous batch. A batch is applied when no
earlier counter of its origin is missing and the region's vector covers the context.

**Cloned memory** is the only way in which a dot can get two authors. The audit detects it (`replication.audit.audit`).
A region then replaces its state by another region's, and hands over, under a new origin, what only it had
(`replication.membership.start_over`, `core.starting_over`).

**Members** are the origins that have been sponsored and have not ended, in a replicated table (`core.members`). The
first ones found the cluster once all of them have met (`replication.origins.founding`). An origin creates groups and
forgets tombstones once it is admitted, by a sponsor, or by all if all regions have restarted
(`replication.membership.membership`). What every member has on its disk is causally stable; only then are tombstones
forgotten and the log truncated (`core.collection`, `storage.checkpoint`).

**Streams** are observed-remove sets, **groups** are delete-wins sets of create dots, and **runs** replicate
acknowledgements once they are contiguous. Consumers, pending entries and cursors are local facts, logged here and never
sent.

The reasons for the design are in `docs/decisions.md`, what users notice of a change is in `CHANGELOG.md`.
"""

__version__ = "0.2.0.dev0"
