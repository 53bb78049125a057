"""Bytes to values and back, without I/O: requests and replies of Redis, batches and records, states, DUMP."""
