"""The deterministic simulator: the node, its log and its sessions on a simulated disk, network and clock.

Every module here is the twin of a port in `crdtstream`, with faults as options. None reads a clock or a random source
of its own: each is given the `Random` from which it may draw, so a seed reproduces a run.
"""
