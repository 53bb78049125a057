"""Faults on real regions: `python -m nemesis` runs three `crdtstream serve` processes and breaks what lies around them.

Each region lives in a network namespace of its own on a disk of its own; a user-space switch joins the namespaces, and
drops or delays packets as a fault says. Clients write, read, acknowledge and remove all the time and record what they
were answered. After each fault the regions heal, come to rest and must agree, and a checker names every entry that the
record cannot explain.

    region_process   one `crdtstream serve` process and its clients; tests of processes use it too
    network          namespaces and the switch between them
    loopback         relays between regions on loopback, where namespaces cannot be made
    disks            a small disk for each region
    cluster          three regions, their network and disks, owned together and removed together
    history          what clients asked and were answered
    load             the clients
    checker          pure: what a history and the final state say is wrong
    faults           what can be done to a cluster, and undone
    run              rounds of one fault each, and their table

Nothing here is imported by the package; it sees regions as clients and operators do.
"""
