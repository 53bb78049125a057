"""Blocks that are not in memory: which are spilled, and the requests that wait until some have been read."""
