"""Streams into and out of a region over the Redis port: `crdtstream import` and `crdtstream export`.

    source      reads a stream from any Redis server: pages of entries, its state, its groups
    servers     finds the server of each key: shards of a region, masters of a Redis Cluster, or one for all
    statements  the commands that make the same stream elsewhere
    importing   sends them to a region, and goes on where an interrupted import stopped
    exporting   writes them as Redis protocol, for `redis-cli --pipe`
    app         the two commands

A client of two Redis ports in a process of its own: it knows a node only by its replies and imports nothing else of the
package.
"""
