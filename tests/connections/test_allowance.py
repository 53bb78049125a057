"""How a turn is shared out."""

from __future__ import annotations

from crdtstream.connections.allowance import MS_NS, SHARES, Allowance

BYTES_MAX, MS_MAX = 1_000, 8


def opened(turn: Allowance, now_ns: int = 0) -> bool:
    return turn.open_share(now_ns, BYTES_MAX, MS_MAX)


def test_a_share_ends_with_its_bytes() -> None:
    turn = Allowance()
    assert opened(turn)
    turn.reply_bytes += BYTES_MAX // SHARES - 1
    assert turn.has_more(0)
    turn.reply_bytes += 1
    assert not turn.has_more(0)


def test_a_share_ends_with_its_time() -> None:
    turn = Allowance()
    assert opened(turn, 5 * MS_NS)
    assert turn.has_more((5 + MS_MAX // SHARES) * MS_NS - 1)
    assert not turn.has_more((5 + MS_MAX // SHARES) * MS_NS)


def test_a_turn_ends_with_its_bytes_whichever_client_took_them() -> None:
    turn = Allowance()
    for _ in range(SHARES):
        assert opened(turn)
        turn.reply_bytes += BYTES_MAX // SHARES
        turn.close_share(0)
    assert not opened(turn)
    turn.begin_turn()
    assert opened(turn)


def test_a_turn_ends_with_the_time_that_clients_took_not_with_that_between_them() -> None:
    turn = Allowance()
    now_ns = 0
    for _ in range(SHARES):
        now_ns += 1_000 * MS_NS
        assert opened(turn, now_ns)
        now_ns += MS_MAX * MS_NS // SHARES
        turn.close_share(now_ns)
    assert not opened(turn, now_ns)


def test_the_last_share_is_not_cut() -> None:
    turn = Allowance()
    turn.reply_bytes = BYTES_MAX - 1
    assert opened(turn)
    turn.reply_bytes += BYTES_MAX // SHARES - 1
    assert turn.has_more(0)
