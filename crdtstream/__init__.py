"""crdtstream: an active-active stream store.

Every region runs a node that takes reads and writes locally over the Redis Streams protocol, keeps one entry tree for
each writing origin, and exchanges effects with the other regions over gRPC. Regions converge without coordination.

**Shape.** The core is a pure machine: commands, messages and ticks go in; records, messages and replies come out. It
reads no clock, no random source, no socket and no file; a stopwatch that the runtime lends it counts what commands
take, for statistics alone. The runtime performs what comes out in the order of the fields of `Ready`, and that order is
the law: append to the log, then answer; peers pull what is appended.

    0 core                    vectors, IDs, blocks, entry trees, streams, groups, the replica
    1 protocols               RESP requests and replies; the codec of batches and records
    2 commands, replication   one function for each Redis command; session, inbox, births, members, state transfer
    3 node                    one region
    4 storage                 log and checkpoint behind a disk port, real and simulated
    5 runtime                 asyncio turns, gRPC links
    6 servers                 the Redis port
    7 demo, admin, cli        where everything is put together

**Route of one XADD.** `servers.resp_server` (bytes) -> `protocols.requests` (argv) -> `node` -> `commands.serving`
(client) -> `commands.dispatch`, `commands.streams` (arguments, ID) -> `core.replica` (dot, effect) -> `core.stream`,
`core.entry_tree`, `core.block`. Then `runtime.loop` takes `node.ready()`: `replication.turn` has encoded the batch
(`protocols.codec`), `storage.log` appends it, the answer goes out, and each `runtime.link` pulls what its peer lacks
(`replication.session`, `replication.feed`). On the far side: `runtime.link` -> `node` -> `replication.exchange` ->
session -> `replication.inbox` (gap, dependencies) -> `replication.turn` -> `core.applying` -> the tree links the block;
the log; progress goes back.

**Route of one state.** A peer that the log no longer serves (`replication.history`, `replication.feed`) is handed a
whole state (`replication.handover`): `replication.snapshot` captures it key by key, and each key before it changes
(`core.observer`); `replication.transfer` sends chunks, `replication.staging` gathers them, each a record of the log,
and `core.applying` joins them as one (`core.joining`).

**Route of one XACK.** ... -> `commands.groups` -> `core.replica` (a local fact) -> `core.group`, `core.pending`: the
entry leaves. At the end of the turn the replica asks each group that changed for new runs, and prepares `Acknowledged`
only if there are some. On the far side: ... -> `core.applying` -> `core.group`: union of runs, pending entries inside
leave.

**Causality.** An origin is one incarnation of a region's data directory; its slot is `region + 256 * incarnation`. A
dot `(slot, counter)` names one effect. Effects travel in batches of one origin, one contiguous counter range, one
causal context; a batch is applied when no counter before it is missing and the own vector covers its context.

**Members** are origins that others admitted and nobody evicted, a replicated table; the first of them found the cluster
once all have met (`replication.founding`). What every member has on its disk is causally stable: only then are
tombstones forgotten and is the log cut (`core.members`, `core.collection`, `replication.membership`,
`storage.checkpoint`).

**Streams** are observed-remove, **groups** are del-wins sets of create dots, **runs** replicate acknowledgement once it
is contiguous; consumers, pending entries and cursors are local facts, logged here and never sent.

Where the code departs from the first design, `CHANGELOG.md` says so and why.
"""

__version__ = "0.1.0"
