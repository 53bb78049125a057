"""Numbers, times and sizes as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

KIB = 1024
NOTHING = "-"
STEPS_S = ((86_400, "d"), (3_600, "h"), (60, "min"))


def count(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def several(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(byte_count: int) -> str:
    if byte_count < KIB:
        return f"{byte_count} B"
    value, unit = byte_count / KIB, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:.1f} {unit}"


def duration(ms: float) -> str:
    """`850 ms`, `12 s`, `3 min`, `2 h 5 min`."""
    if ms < 1000:
        return f"{round(ms)} ms"
    left_s = int(ms / 1000)
    if left_s < 60:
        return f"{left_s} s"
    parts: list[str] = []
    for step_s, unit in STEPS_S:
        if left_s >= step_s:
            parts.append(f"{left_s // step_s} {unit}")
            left_s %= step_s
    return " ".join(parts[:2])


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else NOTHING


def moment(entry_id: str) -> str:
    """The time in an ID, in UTC; empty where it is no time."""
    ms = entry_id.partition("-")[0]
    if not ms.isdigit() or not 0 < int(ms) < 253_402_300_800_000:
        return ""
    return datetime.fromtimestamp(int(ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def age_ms(entry_id: str, now_ms: int) -> int | None:
    """How long ago an ID was given; None where it is no time of the last years."""
    ms = entry_id.partition("-")[0]
    if not ms.isdigit() or int(ms) < 1_000_000_000_000:
        return None
    return max(0, now_ms - int(ms))
