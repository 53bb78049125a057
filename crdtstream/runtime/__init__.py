"""The process around a region: turns and the event loop, its ports, and what is written to the disk.

loop, turns           one turn: input, one append to the log, replies, one pull for each link
redis, links, bulk    the ports for clients, regions and bulk programs; `http` for metrics and health
saver, packer         checkpoints and packed blocks, beside the turns
checking, opening     what a start looks at, and how it opens the data directory
"""
