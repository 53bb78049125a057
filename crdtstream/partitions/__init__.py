"""Partitioned streams: partitions whose messages have dense offsets, and groups whose instances own partitions.

What the OCI gateway serves, without its protocol. A partition is a stream of the engine, and everything else that
outlives a process is an entry too, so the log, checkpoints and the other regions need to know nothing of partitions.
"""
