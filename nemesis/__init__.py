"""Faults on real regions: `python -m nemesis` runs three `crdtstream serve` processes and breaks their environment.

Each region has its own network namespace and its own disk; a switch in user space connects the namespaces and drops or
delays packets as a fault demands. Clients write, read, acknowledge and remove all the time and record every reply.
After each fault the regions heal, come to rest and must agree, and a checker reports every entry that the record cannot
explain.

    network          namespaces and the switch between them
    loopback         relays between regions on loopback, for machines without namespaces
    disks            a small disk for each region
    cluster          three regions with their network and disks, created and removed together
    history          what clients requested, and the replies
    load             the clients
    checker          pure: the anomalies in a history and a final state
    faults           the faults of a cluster, and how each is undone
    run              rounds of one fault each, and their table
    standby          two regions of one site, of which the first fails
    spark_kills      a Spark streaming query that is killed during its batches
    gateway_client   a client of the OCI gateway
    queues           consumers of two groups over three regions, and what comes twice
    crowd            these consumers, and producers, with the client library
    repeats          pure: what they missed, and what may come twice
    skew             clocks of regions that are wrong
    cold             a region that has most of its entries on the disk only, killed again and again
    cold_operations  what operators do with it: start, checkpoint, transfer, audit, backup, restore
    cold_waits       its clients beside readers that wait for the disk
    slow_disk        a region on a disk that takes its time, or stalls
    shards           shards that move between machines, are killed and restarted under load
    shard_load       their clients, and what these were answered
    instances        instances of consumer groups of the gateway that come, stall and die

Regions are started and asked by `crdtstream.processes`, as the demo does it. The package never imports anything here;
nemesis sees regions as clients and operators do.
"""
