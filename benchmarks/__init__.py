"""crdtstream beside a real redis-server: one command, one table, every claim about speed a ratio.

    python -m benchmarks [--quick] [--json] [--rows PATTERN] [--redis-server PATH] [--python PATH] [--profile ROW]

A row starts both servers anew, with temporary directories and free ports of loopback, and measures them in turn, so
that a noisy machine is noisy for both. What a row says:

    ours, Redis     operations in a second, the median of the repetitions; the load is the same process for both
    ratio           ours / Redis: above 1 is faster than Redis (for memory: below 1 is smaller)
    CPU             µs of server CPU for each operation, all threads, user and system; its ratio is ours / Redis
    target          what the project wants to reach, and whether it did

`*` marks a row whose load generator was busier than the server: the server could have done more.

Redis runs with `appendonly yes` and `appendfsync everysec` against `fsync = everysec`, without snapshots and without
rewriting its log, which only spares it work.
"""
