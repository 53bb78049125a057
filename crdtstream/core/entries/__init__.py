"""Blocks of entries: their column format, and what searches, merges, cuts and packs them.

A block holds `count` consecutive entries of one origin, in ascending order. Entry i is row i of four columns, and a
slice of the concatenated RESP replies:

    ms        count integers, or low halves above `ms_base`    milliseconds of the ID: ms_base + ms[i]
    seq       count integers, or low halves above 0            sequence number of the ID
    listed    absent, or count integers above the counter base counter: counter_base + (listed[i], or i if absent)
    ends      count integers, or low halves above 0            offset just after entry i in the bytes
    bytes     byte_count bytes, in one or more chunks          the entries, one RESP reply each

A column is *wide*, 8 bytes a row, or *narrow*, 4 bytes a row: the low halves of values that share their high half, the
*base*. Columns of a block that grows are wide; sealing makes narrow what can be (`uint_encoding`). Counters are
listed only where they are not contiguous.

A sealed block may be *packed* (`packed_block`). Its packed form is one zstd frame of

    widths    4 bytes: 8, 4 or 0 (absent) for ms, seq, listed, ends
    columns   ms, seq, listed, ends, concatenated, as differences of neighbouring 32-bit lanes, little-endian
    bytes     the entries as above, or in *column layout* (`column_layout`), which the packed form records:
                  width    1 byte: how many tokens an entry has beside its ID
                  differs  a byte for each of these: 0 if the token is the same in all entries, else 1
                  tokens   token by token instead of entry by entry, separated by CRLF; one where it is the same

Both bases, `count`, `byte_count` and whether counters are listed stay beside the packed form, and so do the first ID
and the first and the sum of the listed counters. Checkpoints store columns and packed forms in this layout
(`storage.blocks`), so it is part of their format.

Reference: Pebble's `sstable/colblk`, which draws the column format of its blocks in the same way.
"""
