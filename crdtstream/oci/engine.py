"""What the gateway asks of the region.

Every coroutine raises `Refused`. What it returns is in the log, and durable where `fsync` is `always`. Offsets are
dense and rise from 0; `first` is inclusive, and times are milliseconds since 1970.
"""

from __future__ import annotations

from typing import Protocol

from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import Bookmark, NewMessage, PartitionMessage, Polled, Reservation, Stamp, StreamSpec


class Engine(Protocol):
    """The partitioned streams of the region."""

    def now_ms(self) -> int: ...

    # Documents: small replicated values that any region may write; the last writer wins, and None deletes.

    async def write_document(self, kind: str, name: str, document: bytes | None) -> None: ...

    def documents(self, kind: str) -> dict[str, bytes]: ...

    def move_clock(self, ahead_ms: int) -> None:
        """Let timeouts of instances, the retention and the times of messages be so far ahead, in this region."""

    # Streams; the region that creates one becomes its home.

    async def create_stream(self, spec: StreamSpec) -> None: ...

    async def delete_stream(self, stream_id: str) -> None:
        """Messages and groups are gone at once."""

    def spec(self, stream_id: str) -> StreamSpec | None: ...

    # Partitions, read in this region.

    def epoch(self, stream_id: str) -> Epoch: ...

    def bounds(self, stream_id: str, partition: int) -> tuple[int, int]:
        """The oldest offset, and the next one to be numbered as far as it is known here."""

    async def offset_at(self, stream_id: str, partition: int, time_ms: int) -> int:
        """The first offset whose time is not before `time_ms`; the next offset if there is none."""

    def clamp_offset(self, stream_id: str, partition: int, next_offset: int, epoch: Epoch) -> int:
        """A next offset of an older epoch, as far as it still holds."""

    async def locate(self, stream_id: str, partition: int, offset: int) -> Epoch | None:
        """Under which epoch an offset holds that is not here, because this region lags or another home has taken over
        since; None if nobody has it.
        """

    def misses_regions(self) -> bool:
        """True if a region is a member and not linked: it may have what is not known here."""

    async def read(
        self, stream_id: str, partition: int, first: int, epoch: Epoch, count_max: int, bytes_max: int
    ) -> tuple[list[PartitionMessage], Epoch]:
        """The messages from a next offset on that was reached under `epoch`: at most `count_max`, and about `bytes_max`
        of keys and values, but at least one if there is any; none while that epoch has not arrived in this region.
        Also the epoch that they were read under, which is to be kept with the offset behind them.
        """

    async def read_polled(
        self, stream_id: str, polled: Polled, before: Bookmark, order: list[int], count_max: int, bytes_max: int
    ) -> tuple[list[tuple[int, PartitionMessage]], Bookmark]:
        """What an instance that stood at `before` reads after its poll, of the partitions in `order`, each message with
        its partition; and where the instance stands then.
        """

    # What the home does; forwarded where that is another region.

    async def put(self, stream_id: str, messages: list[NewMessage]) -> list[Stamp]: ...

    async def join_group(self, stream_id: str, group: str, start: str, time_ms: int, groups_max: int) -> Bookmark:
        """Create the group unless it exists; then `start` is ignored. `groups_max` of 0 means no limit."""

    async def poll(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark, commits: bool
    ) -> Polled:
        """Rebalance if needed, commit what the bookmark carries if `commits`, and say what the instance owns."""

    async def commit(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark
    ) -> Bookmark: ...

    async def heartbeat(
        self, stream_id: str, group: str, instance: str, timeout_ms: int, bookmark: Bookmark
    ) -> Bookmark: ...

    async def group(self, stream_id: str, group: str) -> list[Reservation]: ...

    async def reset_group(self, stream_id: str, group: str, start: str, time_ms: int) -> None: ...
