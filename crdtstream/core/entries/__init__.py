"""Entries of streams: blocks, the trees that hold them, and what cuts, packs, merges and reads them."""
