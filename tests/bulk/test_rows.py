"""Rows that a client sends: what is canonical is taken as it is, anything else is refused and names its row."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdtstream.bulk import rows as rows_module
from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError
from crdtstream.bulk.rows import SCATTERED_ROWS, SCATTERED_STREAMS, SLICE_BYTES, SLICE_ROWS, EntryRows
from crdtstream.settings.config import Limits
from tests.bulk.columns import Fields, message_of, parsed, row_data, u32, u64

LIMITS = Limits()

field_lists = st.lists(st.binary(max_size=20) | st.sampled_from([b"", b"temp", b"\r\n", b"$1\r\n"]), min_size=2).map(
    lambda fields: fields[: len(fields) // 2 * 2]
)


def checked(rows: EntryRows, limits: Limits = LIMITS) -> EntryRows:
    while rows.count and rows.check(limits):
        pass
    return rows


def rows_with(data: list[bytes]) -> EntryRows:
    ends = array("I")
    for one in data:
        ends.append((ends[-1] if ends else 0) + len(one))
    return EntryRows([(0, b"s")], ends, b"".join(data))


def is_canonical(data: bytes) -> bool:
    """A reader of its own, that goes by the text alone."""
    lines: Fields = []
    rest = data
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        if not lines:
            lines.append(head)
            continue
        if head[:1] != b"$" or not head[1:].isdigit() or rest[int(head[1:]) :][:2] != b"\r\n":
            return False
        lines.append(rest[: int(head[1:])])
        rest = rest[int(head[1:]) + 2 :]
    return len(lines) > 2 and len(lines) % 2 == 1 and row_data(lines[1:]) == data


@given(st.lists(field_lists, max_size=8))
def test_what_an_entry_holds_behind_its_id_is_taken(rows: list[Fields]) -> None:
    found = checked(parsed(message_of(rows)))
    assert found.pieces(0, len(rows)) == [row_data(row) for row in rows]
    assert found.pieces(min(1, len(rows)), len(rows)) == [row_data(row) for row in rows[1:]]


@given(field_lists, field_lists, st.data())
@example([b"f", b"v"], [b"f", b"v"], None)
def test_a_row_passes_exactly_when_it_is_canonical(first: Fields, second: Fields, data: st.DataObject | None) -> None:
    """Bytes of a sound row are changed, dropped or doubled; rows before it must not lend it anything."""
    broken = row_data(second)
    if data is not None:
        at = data.draw(st.integers(0, len(broken) - 1))
        byte = data.draw(st.sampled_from([b"", b"0", b"1", b"2", b"\r", b"\n", b"*", b"$", b"-", b" ", b"\0"]))
        broken = broken[:at] + byte + broken[at + data.draw(st.integers(0, 2)) :]
    rows = rows_with([row_data(first), broken, row_data(first)])
    if is_canonical(broken):
        checked(rows)
        return
    with pytest.raises(BulkError, match="row 1") as refusal:
        checked(rows)
    assert refusal.value.code == INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is found where"),
        (b"*0\r\n", "pairs"),
        (b"*1\r\n$1\r\nf\r\n", "pairs"),
        (b"*02\r\n$1\r\nf\r\n$1\r\nv\r\n", "is found where"),
        (b"*2\r\n$01\r\nf\r\n$1\r\nv\r\n", "is found where"),
        (b"*2\r\n$+1\r\nf\r\n$1\r\nv\r\n", "is found where"),
        (b"*2\r\n$-1\r\n$1\r\nv\r\n", "is found where"),
        (b"*2\r\n$1\r\nf\r\n$1\r\nvv\r\n", "does not end"),
        (b"*2\r\n$1\r\nf\r\n$9\r\nv\r\n", "does not end"),
        (b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\nx\r\n", "follow its last value"),
        (b"*99999999999\r\n", "is found where"),
        (b"*999999998\r\n", "arguments_max"),
        (b"\0$1\r\nf\r\n", "is found where"),
    ],
)
def test_what_is_wrong_is_told(data: bytes, text: str) -> None:
    for rows in ([data], [row_data([b"f", b"v"]), data]):
        with pytest.raises(BulkError, match=text) as refusal:
            checked(rows_with(rows))
        assert f"row {len(rows) - 1}:" in refusal.value.text


@given(st.integers(990, 1_040) | st.integers(9_980, 10_020) | st.integers(99_980, 100_020), st.integers(-2, 2))
def test_large_values_that_begin_alike(size: int, wrong: int) -> None:
    broken = b"*2\r\n$1\r\nf\r\n$%d\r\n" % (size + wrong) + b"v" * size + b"\r\n"
    rows = rows_with([row_data([b"f", b"v"]), broken, row_data([b"f", b"v"])])
    assert rows._is_alike(0, rows.ends[0]) is False, "nothing to be alike to yet"
    if wrong:
        with pytest.raises(BulkError, match="row 1: "):
            checked(rows)
    else:
        checked(rows)
        assert rows._is_alike(rows.ends[0], rows.ends[1]), "the fast way is the one that was taken"


def test_rows_that_begin_alike_are_held_to_the_limits_too() -> None:
    rows = rows_with([row_data([b"f", b"v"]), row_data([b"f", b"v" * 100])])
    checked(rows_with([row_data([b"f", b"v"]), row_data([b"f", b"v" * 99])]), replace(LIMITS, entry_bytes_max=100))
    with pytest.raises(BulkError, match="row 1: Elements are too large to be stored"):
        checked(rows, replace(LIMITS, entry_bytes_max=100))
    with pytest.raises(BulkError, match="row 0: it has 4 fields and values, more than arguments_max = 6"):
        checked(rows_with([row_data([b"f", b"v"] * 2)]), replace(LIMITS, arguments_max=6))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"count": 3}, "column ends has 8 bytes, but 3 rows need 12"),
        ({"count": 2**32 - 1}, "column ends"),
        ({"ends": u32([24, 12])}, "is not the size of data"),
        ({"ends": u32([40, 36])}, "row 0: 22 bytes follow its last value"),
        ({"ends": b"garbage!"}, "column ends"),
        ({"streams": []}, "have no stream"),
        ({"streams": [b"a", b"b"]}, "column stream_of has 0 bytes"),
        ({"streams": [b"a", b"a"]}, "twice"),
        ({"stream_of": u32([0])}, "column stream_of has 4 bytes"),
        ({"stream_of": u32([0, 1])}, "names stream 1 of 1"),
        ({"ms": u64([1])}, "column ms has 8 bytes"),
        ({"ms": u64([1, 2])}, "column id_seqs has 0 bytes"),
        ({"id_seqs": u64([1, 2])}, "column ms has 0 bytes"),
        ({"streams": [b"%d" % at for at in range(65_537)]}, "more than 65536"),
        ({"database": 16}, "database 16 is out of range"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, object], text: str) -> None:
    message = message_of([[b"f", b"v"], [b"f", b"w"]])
    for name, value in changes.items():
        message.ClearField(name)  # type: ignore[arg-type]
        if name == "streams":
            message.streams.extend(value)  # type: ignore[arg-type]
        else:
            setattr(message, name, value)
    with pytest.raises(BulkError, match=text) as refusal:
        checked(parsed(message))
    assert refusal.value.code == INVALID_ARGUMENT


def test_slices_bound_rows_and_bytes() -> None:
    many = rows_with([row_data([b"f", b"v"])] * (SLICE_ROWS + 1))
    assert (many.slice_end(0), many.slice_end(SLICE_ROWS), many.slice_end(SLICE_ROWS + 1)) == (
        SLICE_ROWS,
        SLICE_ROWS + 1,
        SLICE_ROWS + 1,
    )
    large = rows_with([row_data([b"f", b"v" * (SLICE_BYTES // 3)])] * 4 + [row_data([b"f", b"v" * 2 * SLICE_BYTES])])
    assert [large.slice_end(low) for low in range(5)] == [2, 3, 4, 4, 5]


@pytest.mark.parametrize("ends", [[18, 1_000_000, 54], [18, 1_000_000_000, 54], [1_000_000, 36, 54]])
def test_an_end_that_lies_behind_the_data(ends: list[int]) -> None:
    rows = EntryRows([(0, b"s")], array("I", ends), row_data([b"f", b"v"]) * 3)
    with pytest.raises(BulkError, match=r"row [01]: "):
        checked(rows)


def test_an_end_that_lies_before_its_beginning() -> None:
    rows = EntryRows([(0, b"s")], array("I", [18, 10, 36]), row_data([b"f", b"v"]) * 2)
    with pytest.raises(BulkError, match="row 1: column ends does not ascend"):
        checked(rows)


def test_rows_of_many_streams_come_in_smaller_slices() -> None:
    streams = [b"s%d" % at for at in range(SCATTERED_STREAMS + 1)]
    scattered = parsed(message_of([[b"f", b"v"]] * 2 * SLICE_ROWS, streams, [at % 65 for at in range(2 * SLICE_ROWS)]))
    assert (scattered.slice_end(0), scattered.slice_end(0, 5)) == (SCATTERED_ROWS, 5)


def test_rows_of_several_streams_keep_their_order() -> None:
    rows = parsed(message_of([[b"f", b"%d" % at] for at in range(5)], [b"a", b"b"], [1, 0, 1, 1, 0]))
    assert rows.by_stream(1, 5) == [((0, b"a"), [1, 4]), ((0, b"b"), [2, 3])]


@pytest.mark.interpreted
def test_checking_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module.EntryRows.slice_end, "__defaults__", (2,))
    rows = rows_with([row_data([b"f", b"v"])] * 5)
    steps = [rows.check(LIMITS) for _ in range(3)]
    assert (steps, rows.checked) == ([True, True, False], 5)
