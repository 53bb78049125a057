"""The replicated state, pure: `values`, `entries` and `groups` are what it is made of.

stream, keyspace, replica    streams of a database, and all that a region has applied
effects, applying, joining   what can happen, how it is applied, and how two states are joined
members                      origins, sponsors, evictions
digest, merkle, forks        what regions compare
stream_copy, group_copy      COPY, MOVE, RENAME, SWAPDB
packing_walk                 which blocks are packed while the region is idle
"""
