"""The deterministic simulator: the node, its log and its sessions on a simulated disk, network and clock.

Everything here is a twin of a port in `crdtstream` with faults as options. Nothing reads a clock or a random source
of its own: each takes the `Random` that it may draw from, so a seed repeats a run.
"""
