"""Regions as processes, for everything that runs some: the demo, nemesis, the benchmarks, and tests.

    ports      ports that nobody else takes
    waiting    polling with a deadline, and the error that says what did not hold
    clients    connections to a Redis port, with replies as on the wire
    launching  how a process is started: its interpreter or container, its network, its directory
    server     a process that answers Redis requests: its log, its state, its end
    region     `crdtstream serve`: its arguments, its ports, and what it tells about itself
    sharded    a region of several of these processes, and the one that runs them
    relay      a path between two regions that can be held and cut
    memory     what the kernel says about the memory of a process, and its peak

Nothing here knows a node: a region is its command line, its log, and what it answers. It imports nothing else of the
package.
"""
