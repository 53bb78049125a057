"""Scenarios as text, for all that play them: the demo on real processes, the simulator on simulated machines.

    text    the format: commands, steps, and the replies that must come
    reply   RESP2 replies as values, and as lines of a text

It runs nothing, and imports nothing else of the package.
"""
