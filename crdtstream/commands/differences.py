"""What replies otherwise than in Redis on purpose, and why; docs/differences.md is made from this table.

A difference that is not here is a fault. Parity tests stay away from these, or name the row that they allow for.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """`commands` are names as COMMAND tells them, without subcommands; `what` is a sentence for users."""

    commands: tuple[str, ...]
    what: str
    why: str


DIFFERENCES: Final = (
    Difference(
        ("type",),
        "There are streams only: commands of other data types are unknown, and `TYPE` answers `stream` or `none`.",
        "Each data type would need a replicated form of its own.",
    ),
    Difference(
        ("xadd",),
        "`strict` mode refuses an ID that the client gives; `CRDT.IMPORT` accepts one in every mode.",
        "Two regions could give one ID to two entries.",
    ),
    Difference(
        ("xadd", "xrange", "xread"),
        "A later reply may hold a smaller ID, and `XREAD` may skip an entry that arrives late.",
        "Entries of other regions arrive when the network brings them; groups deliver them all.",
    ),
    Difference(
        ("xsetid",),
        "An ID below the stream's last ID is refused, also where no entry lies above it.",
        "Regions join their last IDs by the maximum, so a last ID never falls.",
    ),
    Difference(
        ("xreadgroup", "xpending", "xclaim", "xautoclaim", "xnack", "xinfo"),
        "Consumers and pending entries are those of this region; `CLAIM` and `XNACK` act on them.",
        "A delivery that waited for other regions would not be local.",
    ),
    Difference(
        ("xread",),
        "`XREAD BLOCK` with `$` returns what is added from then on, also below the last ID that it saw: after `DEL`, or"
        " where `RENAME`, `COPY` or `RESTORE` put other entries under the name.",
        "Entries of other regions arrive below that ID, and a reader that waits must not miss them.",
    ),
    Difference(
        ("xreadgroup",),
        "A reader that waits while `XGROUP SETID` moves its group back is served by the next change of the stream, in"
        " Redis by the next entry.",
        "Readers look again whenever their stream changes.",
    ),
    Difference(
        ("xgroup",),
        "A `DEL` or `XGROUP DESTROY` in another region ends a group that is created concurrently: expect `NOGROUP`.",
        "One of the two has to win everywhere, without coordination.",
    ),
    Difference(
        ("xgroup", "restore", "copy", "move", "swapdb"),
        "`XGROUP CREATE`, and what makes groups of others (`RESTORE`, `COPY`, `MOVE`, `SWAPDB`), waits for a moment"
        " after a start, and then answers `TRYAGAIN`; at once in a transaction.",
        "An origin creates groups only once it is admitted, or another region could forget what destroys them.",
    ),
    Difference(
        ("xgroup", "exists"),
        "`XGROUP DESTROY` of the last group of a stream that never had an entry removes the key.",
        "A key exists through its entries, adds and groups, so that it exists in every region or in none.",
    ),
    Difference(
        ("xgroup", "xclaim"),
        "`XGROUP SETID` and `XCLAIM ... LASTID` move the position in this region only.",
        "Positions are local; acknowledgements are what is replicated.",
    ),
    Difference(
        ("xtrim", "del", "flushall"),
        "What this region has seen is removed; entries that arrive later stay.",
        "A removal of what nobody has seen would lose writes.",
    ),
    Difference(
        ("xadd", "xtrim", "xdelex", "xackdel"),
        "`ACKED` keeps what another region's readers may hold until their acknowledgements have arrived. Of an ID that"
        " the stream does not have nothing is kept, also where Redis replies 2 because a group has not read so far; nor"
        " is anything for a group that was destroyed, which Redis may still count.",
        "A region knows other regions' readers by their acknowledgements alone; what does not exist cannot be kept, and"
        " what no group is left to read need not be.",
    ),
    Difference(
        ("xtrim",),
        "`DELREF` drops references to entries in the trimmed stretch that were removed before, too.",
        "Other regions are told the stretch, and may have removed other entries of it.",
    ),
    Difference(
        ("xadd", "xcfgset"),
        "`IDMP` and `IDMPAUTO` recognise a repetition in each region that has the add. Of adds that regions made under"
        " one name at once one entry stays. `RENAME` drops the names; `XCFGSET` and `XIDMPRECORD` hold in one region.",
        "A region answers before it has heard of the others, and the work is to be done once.",
    ),
    Difference(
        ("rename", "copy", "move", "swapdb"),
        "Entries are rewritten, at most `copy_entries_max` of them.",
        "An entry is known to other regions by its key and its number, so it has to be written again.",
    ),
    Difference(
        ("rename",),
        "`RENAME` drops groups.",
        "What other regions' readers hold and acknowledge at that moment names the entries as they were, and would be"
        " delivered again. Who wants groups to go along can copy the stream and delete the source.",
    ),
    Difference(
        ("copy", "move", "swapdb"),
        "Groups, consumers and pending entries go along in this region. To other regions' readers the group is a new"
        " one, which begins behind what all regions know to be acknowledged.",
        "Consumers and pending entries are local: what other regions' readers hold is not known here, so they get it"
        " again rather than never.",
    ),
    Difference(
        ("expire", "persist"),
        "Of concurrent expiries the longest wins, and `PERSIST` beats all.",
        "The region that asked for the longest life must not find the key gone.",
    ),
    Difference(
        ("config",),
        "Settings of Redis that have no effect here, such as `repl-timeout`, take what Redis takes and have their"
        " default again after a restart; those that promise something, such as `maxmemory-policy`, take only theirs.",
        "A value that is accepted and not obeyed must not matter to anybody.",
    ),
    Difference(
        ("dump",),
        "`DUMP` writes the oldest format that holds all there is: of Redis 7.0 without consumers, of 7.2 with them, of"
        " 8.6 with producer records, of 8.8 with released entries.",
        "As many releases of Redis as possible restore it; Redis always writes its newest.",
    ),
    Difference(
        ("wait", "waitaof"),
        "Regions are counted, by what they have on disk; the first number of `WAITAOF` is for this region's own disk."
        " For a connection that wrote nothing, linked regions count that have all that this region has.",
        "There are no replicas; a write in the memory of another region may be lost with it.",
    ),
    Difference(
        ("watch",),
        "Changes that arrive from other regions end a transaction, too, as do `XSETID` and the creation or destruction"
        " of a group, of which Redis takes no notice.",
        "The keys did change, and what is replicated is a change.",
    ),
    Difference(
        ("save", "bgsave", "debug"),
        "`SAVE` and `DEBUG SLEEP` hold up their caller only; all else of `DEBUG` is refused, as Redis does by default.",
        "A region that stands still is silent to its peers.",
    ),
    Difference(
        ("publish", "spublish", "subscribe", "ssubscribe"),
        "Messages reach the listeners in this region; shard channels are channels with names of their own.",
        "Messages have no history that another region could catch up with.",
    ),
    Difference(
        ("config", "auth"),
        "`CONFIG GET` does not show `requirepass`. A wrong password is answered after `auth_failure_delay_ms`.",
        "Secrets are in no reply, log or metric; guessing has to be slow.",
    ),
    Difference(
        ("acl",),
        "Users are kept by `aclfile` alone, not by `CONFIG REWRITE`. Without a default user in that file it is as"
        " `requirepass` says. A username is not empty; the log of refusals keeps 1,024 bytes of what a client sent.",
        "A file whose default user was forgotten must not open the region; what anybody can send is bounded.",
    ),
    Difference(
        ("xreadgroup", "xread"),
        "Options are skipped to find the keys that a user needs rights for, so a group named `STREAMS` hides none.",
        "Redis takes the first word `STREAMS` for the keyword.",
    ),
    Difference(
        ("client",),
        "`CLIENT PAUSE` stops the clients of this region. Batches of other regions are applied meanwhile; the bulk port"
        " and the OCI gateway refuse writes with errors that say to try again, and their reads go on. A region that"
        " stops ends the pause.",
        "Regions do not wait for each other: a pause is local, as clients are.",
    ),
    Difference(
        ("client",),
        "`CLIENT TRACKING`, `CLIENT TRACKINGINFO`, `CLIENT GETREDIR` and `CLIENT CACHING` are unknown, and `CLIENT"
        " HELP` leaves them out.",
        "Client-side caching is for values that are read again and again; readers of streams go on.",
    ),
    Difference(
        ("latency",),
        "There are no samples of latency: `LATEST`, `HISTORY` and `HISTOGRAM` return nothing, `RESET` returns 0.",
        "`SLOWLOG`, `INFO commandstats` and the metrics tell it.",
    ),
    Difference(
        ("memory",),
        "`MEMORY USAGE` is an estimate without samples, `MEMORY STATS` has four fields, `MEMORY PURGE` does nothing,"
        " and `MEMORY DOCTOR` tells how much of the limit is used.",
        "Memory is that of the process, and is returned to the system without being asked.",
    ),
    Difference(
        ("config", "acl"),
        "`CONFIG REWRITE`, `ACL SAVE` and `ACL LOAD` are refused after `MULTI`, and `COMMAND INFO` says so.",
        "They wait for a file, and a transaction waits for nothing.",
    ),
    Difference(
        ("move", "swapdb"),
        "`MOVE` and `SWAPDB` are refused while memory is over its limit, and `COMMAND INFO` says so.",
        "They write entries again.",
    ),
    Difference(
        ("role", "module", "script", "function"),
        "Every region is a master without replicas; there are no modules and no scripts. `MODULE LOADEX`,"
        " `SCRIPT DEBUG`, `FUNCTION DUMP` and `FUNCTION RESTORE` are unknown.",
        "Regions are linked by their own protocol, and scripts would need a bound on time and memory.",
    ),
    Difference(
        ("cluster",),
        "Subcommands that would change the cluster are refused and say why; `SLOT-STATS` is refused, too. All shards"
        " have the epoch of the map, the port of the bus is 0, and there are no links. A region of one shard has no"
        " cluster mode.",
        "Hash slots are fixed when a cluster is founded, the supervisor writes the map, and shards have no bus.",
    ),
    Difference(
        ("acl", "config"),
        "In a region of several shards `ACL SAVE` and `CONFIG REWRITE` are refused.",
        "All shards read the same files.",
    ),
    Difference(
        ("xinfo",),
        "`radix-tree-keys` counts blocks, of 256 entries at most; `radix-tree-nodes` is one more.",
        "Entries lie in blocks by origin, not in a radix tree.",
    ),
    Difference(
        ("xtrim", "xadd"),
        "A trim with `~` drops whole nodes of `stream-node-max-entries` entries, counted from the first that is left;"
        " `stream-node-max-bytes` is accepted and has no effect.",
        "There are no listpack nodes, whose borders depend on earlier removals and on how Redis packs an entry.",
    ),
)
