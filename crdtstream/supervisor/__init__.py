"""A region of several shards on one machine: the process that starts, watches and stops a process for each of them.

    founding    the file `shards.json`: how many shards the region has, and where they are reached
    reports     what the processes say of themselves, as they would to a service manager
    shard       the process of one shard: started, started again when it fails, stopped
    supervisor  all of them: signals, settings that are read again, the exit code
    tether      the other end, in the process of a shard: it ends with its supervisor

A shard is a whole node, and knows nothing of the supervisor but its own number.
"""
