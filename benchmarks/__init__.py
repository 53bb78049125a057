"""crdtstream compared with a real redis-server: one command, one table, every claim about speed a ratio.

    python -m benchmarks [--quick] [--json] [--rows PATTERN] [--redis-server PATH] [--python PATH] [--profile ROW]
                         [--instructions | --no-instructions] [--plots DIRECTORY]

Each row starts fresh servers, with temporary directories and free loopback ports, and measures them in turn, so that a
noisy machine affects both. The columns of a row:

    ours, Redis     operations per second, the median of the repetitions; both get the same load process
    ratio           ours / Redis: above 1 is faster than Redis (for memory: below 1 is smaller)
    CPU             µs of server CPU per operation, all threads, user and system; its ratio is ours / Redis
    instr.          instructions of the server per operation, in user mode; its ratio is ours / Redis. They are counted
                    in a second, small pass, and hardly depend on what else the machine does
    target          the project's goal, and whether it was reached

`*` marks a row whose load generator was busier than the server: the server could have done more.

Redis runs with `appendonly yes` and `appendfsync everysec` against `fsync = everysec`, without snapshots and without
rewriting its log, which only spares it work.

    rows/           what each row measures; `catalog` lists them by name
    load/           the load on the servers, and the process that sends it
    report/         results, the table, JSON and curves
    bench           the servers of one row; `servers` starts them, `scale` says how much they process
    two_passes      rows are timed, and then their instructions counted (`instructions`); or profiled (`profiler`)

`curves` measures regions of more and more entries and streams, with blocks on the disk and without.
`restart_time`, `many_starts` and `stall` measure a region inside its own process, and `traces` counts the calls and
files on the path of one XADD. Each is a program of its own too: `python -m benchmarks.traces`.
"""
