"""How much memory, disk, network and CPU a region needs for a workload: the arithmetic of `crdtstream size`.

Pure. The constants were measured (docs/capacity.md says how), and a test compares them with a region that is really
filled. Where a measurement has a range, the constant is its upper end, so that what is suggested errs on the side of
too much.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20
REGIONS_MAX = 255
ENTRY_BYTES_MAX = 128 * MIB
# Entries of a full block; the last block of a stream and origin has fewer, and stays unpacked.
BLOCK_ENTRIES = 256

# Memory. An entry is kept as the RESP that serves it: ID and lengths, then 12 bytes of columns, and a part of a block.
EMPTY_REGION_BYTES = 85_000_000
STREAM_BYTES = 2_200
ENTRY_OVERHEAD_BYTES = 62
WORD_OVERHEAD_BYTES = 7
PACKED_OVERHEAD_BYTES = 16
PENDING_BYTES = 39
# Compressed blocks that stay open while they are read, and the window of batches that a peer may have under way.
OPEN_BLOCKS_BYTES = 64 * MIB
WINDOW_BYTES = 32 * MIB
# Above what the data takes: bursts, replies that clients have not read, and memory that is not handed back yet.
MEMORY_MARGIN = 1.25
MACHINE_MARGIN = 1.25

# Disk. What the log has before a checkpoint is due, segments that are allocated ahead, and the reserve.
CHECKPOINT_LOG_BYTES = 256 * MIB
SEGMENT_BYTES = 64 * MIB
CHECKPOINT_OVERHEAD_BYTES = 6
RESERVE_BYTES = 16 * MIB
DISK_MARGIN = 1.2

# Network, per entry and peer: frames of gRPC and TCP, counters, progress back.
WIRE_OVERHEAD_BYTES = 4

# CPU in microseconds per entry on the machine of docs/performance.md, compiled core, by the depth of pipelines and the
# COUNT of reads.
ADD_US = {1: 14.0, 16: 1.3, 128: 0.5}
ADD_BYTE_US = 0.0015
SEND_US = 0.25
APPLY_US = 0.44
DELIVER_US = {1: 16.0, 100: 1.3}
CORE_US_PER_SECOND = 1_000_000


class SizingError(ValueError):
    """A workload that no region can have: the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What the clients of all regions do together. `entry_bytes` are the names and values of all fields of an entry,
    and `packed_part` is what compression leaves of them: 1 for data that does not compress.
    """

    entries_per_second: float
    entry_bytes: int
    regions: int = 3
    retention_seconds: float = 86_400.0
    fields: int = 1
    streams: int = 1
    groups: int = 1
    pending_entries: int = 1_000
    packed_part: float = 0.75
    outage_seconds: float = 86_400.0
    pipeline: int = 16
    read_count: int = 100

    def check(self) -> None:
        """Raise `SizingError` for the first value that makes no sense."""
        bounds: list[tuple[str, float, float, float]] = [
            ("entries-per-second", self.entries_per_second, 0, 1e9),
            ("entry-bytes", self.entry_bytes, 1, ENTRY_BYTES_MAX),
            ("regions", self.regions, 1, REGIONS_MAX),
            ("retention", self.retention_seconds, 0, 1e10),
            ("fields", self.fields, 1, 1_000_000),
            ("streams", self.streams, 1, 1_000_000_000),
            ("groups", self.groups, 0, 1_000_000),
            ("pending-entries", self.pending_entries, 0, 1_000_000_000),
            ("packed-part", self.packed_part, 0.01, 1),
            ("outage", self.outage_seconds, 0, 1e10),
        ]
        for name, value, low, high in bounds:
            if not low <= value <= high:
                raise SizingError(f"--{name} is {value:,}: give a value from {low:,} to {high:,}")
        for name, choice, known in (
            ("pipeline", self.pipeline, ADD_US),
            ("read-count", self.read_count, DELIVER_US),
        ):
            if choice not in known:
                measured = ", ".join(str(each) for each in known)
                raise SizingError(f"--{name} is {choice}: choose the nearest of the values measured, {measured}")


@dataclass(frozen=True, slots=True)
class Size:
    """What one region needs. `memory_hot_bytes` is with every block unpacked, `memory_at_rest_bytes` with every full
    block packed. Sent bytes and `cpu_cores_max` are those of a region that takes all writes and serves all groups;
    received bytes and `cpu_cores_receiving` those of a region that takes none.
    """

    entries_retained: int
    memory_hot_bytes: int
    memory_at_rest_bytes: int
    memory_bytes_max: int
    machine_memory_bytes: int
    log_bytes_per_second: int
    checkpoint_bytes: int
    state_transfer_bytes: int
    outage_log_bytes: int
    disk_bytes: int
    network_sent_bytes_per_second_max: int
    network_received_bytes_per_second_max: int
    cpu_cores_max: float
    cpu_cores_receiving: float


def size_of(load: Workload) -> Size:
    load.check()
    retained = round(load.entries_per_second * load.retention_seconds)
    hot, rest = memory_of(load, retained)
    limit = round(hot * MEMORY_MARGIN) + OPEN_BLOCKS_BYTES + WINDOW_BYTES * (load.regions - 1)
    checkpoint = checkpoint_bytes(load, retained)
    transfer = round(retained * stored_bytes(load)) if load.regions > 1 else 0
    log_rate = load.entries_per_second * stored_bytes(load)
    outage = round(log_rate * load.outage_seconds) if load.regions > 1 else 0
    sent = load.entries_per_second * wire_bytes(load)
    return Size(
        entries_retained=retained,
        memory_hot_bytes=hot,
        memory_at_rest_bytes=rest,
        memory_bytes_max=limit,
        machine_memory_bytes=round(limit * MACHINE_MARGIN),
        log_bytes_per_second=round(log_rate),
        checkpoint_bytes=checkpoint,
        state_transfer_bytes=transfer,
        outage_log_bytes=outage,
        disk_bytes=disk_bytes(checkpoint, transfer, outage),
        network_sent_bytes_per_second_max=round(sent * (load.regions - 1)),
        network_received_bytes_per_second_max=round(sent) if load.regions > 1 else 0,
        cpu_cores_max=round(cpu_cores(load), 3),
        cpu_cores_receiving=round(load.entries_per_second * APPLY_US / CORE_US_PER_SECOND, 3)
        if load.regions > 1
        else 0,
    )


def stored_bytes(load: Workload) -> float:
    """An entry as it is served, in memory and in the log."""
    return load.entry_bytes + ENTRY_OVERHEAD_BYTES + 2 * load.fields * WORD_OVERHEAD_BYTES


def packed_bytes(load: Workload, overhead: int) -> float:
    """An entry of a full block, compressed; a block that does not shrink stays as it is."""
    return min(load.entry_bytes * load.packed_part + overhead, stored_bytes(load))


def unpacked_entries(load: Workload, retained: int) -> int:
    """Entries in blocks that are not full: half a block for each stream and region that writes to it."""
    return min(retained, load.streams * load.regions * BLOCK_ENTRIES // 2)


def memory_of(load: Workload, retained: int) -> tuple[int, int]:
    """Everything unpacked, and everything packed that can be."""
    fixed = EMPTY_REGION_BYTES + load.streams * STREAM_BYTES + load.groups * load.pending_entries * PENDING_BYTES
    loose = unpacked_entries(load, retained)
    stored, packed = stored_bytes(load), packed_bytes(load, PACKED_OVERHEAD_BYTES)
    return round(fixed + retained * stored), round(fixed + loose * stored + (retained - loose) * packed)


def checkpoint_bytes(load: Workload, retained: int) -> int:
    loose = unpacked_entries(load, retained)
    packed = packed_bytes(load, CHECKPOINT_OVERHEAD_BYTES)
    return round(loose * stored_bytes(load) + (retained - loose) * packed)


def disk_bytes(checkpoint: int, transfer: int, outage: int) -> int:
    """Two checkpoints, because the one before stays until the next is complete, the log of an outage, and a state
    transfer, which lies in the log until a checkpoint has it.
    """
    log = outage + CHECKPOINT_LOG_BYTES + 2 * SEGMENT_BYTES
    return round((2 * checkpoint + transfer + log + RESERVE_BYTES) * DISK_MARGIN)


def wire_bytes(load: Workload) -> float:
    return load.entry_bytes * load.packed_part + WIRE_OVERHEAD_BYTES


def cpu_cores(load: Workload) -> float:
    add = ADD_US[load.pipeline] + load.entry_bytes * ADD_BYTE_US
    each = add + (load.regions - 1) * SEND_US + load.groups * DELIVER_US[load.read_count]
    return load.entries_per_second * each / CORE_US_PER_SECOND
