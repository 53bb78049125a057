"""What `/metrics` shows: figures read from the node when they are asked for, and times that the runtime records.

    meters      histograms of the runtime, recorded in well under a microsecond each
    ages        how old the oldest effect is that a peer lacks
    survey      a walk over all streams, in slices; the largest become series, the others are summed up
    families    helpers that make metric families
    of_region, of_spilling, of_peers, of_streams, of_partitions    the families
    exposition  families as text, in slices

Nothing here changes the node.
"""
