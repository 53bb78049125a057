"""crdtstream: an active-active stream store.

Every region runs a node that serves reads and writes locally over the Redis Streams protocol, keeps one entry tree for
each writing origin, and exchanges effects with the other regions over gRPC. Regions converge without coordination.

The core is a pure machine: commands, messages and ticks go in; records, messages and replies come out. It uses no
clock, no random source, no socket and no file, except a stopwatch that the runtime supplies to time commands for
statistics. The runtime performs the output in the order of the fields of `region.node.Ready`, and that order is a
contract: append to the log first, then reply; peers pull what was appended.

    0 core                    values, entries, groups, and the replicated state: streams, members, the replica
    1 settings, status        the configuration; what a region says of itself
      protocols               RESP requests and replies; the codec of batches and records
    2 connections, commands   clients of the Redis port; a function and a row for each command, by families
      replication, bulk       sessions, members, transfers, audit; calls of the bulk port, a slice at a time
      partitions              partitioned streams and their groups, which the OCI gateway serves
      storage                 log and checkpoint on a disk port, real or simulated; independent of the node above it
    3 region                  the node, its requests in turns, and its peers as commands show them
    4 runtime                 asyncio turns, gRPC links, the Redis port, metrics and health, traces
    5 demo, admin, oci, cli   composition of all parts; the gateway is imported only where its port is given
      dashboard               a web page on all regions: a client of their Redis ports

Imports go downward only. Beside the layers, `spark` is a client of the bulk port that runs in processes of its own and
imports only the contract; `processes` starts regions as processes, for the demo and for all that tests or measures
regions from outside; `scenarios` is the format of the texts that the demo plays on processes and the simulator on
simulated machines; `migration` moves streams between Redis servers and regions; `observing` asks regions over their
Redis ports and reads the replies, for all programs for operators; `client` is a library over redis-py, for programs
that move between regions.

`docs/architecture.md` follows an XADD, an XACK, a bulk write and a state transfer through these packages, and has the
rules of causality, streams, groups and members; `docs/glossary.md` has the words, `docs/decisions.md` the reasons.
"""

__version__ = "0.2.0.dev0"
