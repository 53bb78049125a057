"""Users: rules make them, files keep them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.table import COMMANDS
from crdtstream.connections.acl.users import RulesError, Users, merged, users_of

LOOKUP = CATALOGUE.named

names = st.sampled_from([row.name.encode() for row in CATALOGUE if COMMANDS])
signs = st.sampled_from([b"+", b"-"])
# Whatever is no blank, with all that means something in a file or between parentheses.
patterns = st.lists(st.sampled_from([*b"ab*?[]^\\-()\"'~&%#|\x01\xff"]), max_size=6).map(bytes)
plain = st.one_of(
    st.builds(bytes.__add__, signs, names),
    st.sampled_from([b"+@read", b"-@dangerous", b"+@all", b"-@all", b"+select|1", b"+select|)(", b'+select|a"b']),
    st.builds(bytes.__add__, st.sampled_from([b"~", b"%R~", b"%W~", b"&"]), patterns),
    st.sampled_from(b"allkeys resetkeys allchannels resetchannels".split()),
)
words = b"on off nopass >a >b resetpass reset skip-sanitize-payload clearselectors".split()
rules = st.one_of(plain, st.sampled_from(words))


def put(users: Users, name: bytes, *given_rules: bytes) -> None:
    users.put(users.staged(name, list(given_rules), LOOKUP))


@given(
    users_rules=st.dictionaries(
        st.sampled_from([b"default", b"b", b"\xff", b"(x)"]),
        st.tuples(st.lists(rules), st.lists(st.lists(plain, max_size=4), max_size=2)),
    )
)
def test_a_file_gives_back_the_users(users_rules: dict[bytes, tuple[list[bytes], list[list[bytes]]]]) -> None:
    users = Users()
    for name, (own, selectors) in users_rules.items():
        user = users.staged(name, [], LOOKUP)
        for rule in own:
            try:
                user.apply(rule, LOOKUP)
            except ValueError:
                continue
        for selector_rules in selectors:
            user.apply(b"()", LOOKUP)
            for rule in selector_rules:
                try:
                    user.selectors[-1].apply(rule, LOOKUP)
                except ValueError:
                    continue
        user.apply(b"off", LOOKUP)
        users.put(user)
        users.check()
    read = users_of(users.text(), "f", LOOKUP)
    assert {name: user.described() for name, user in read.items()} == {
        user.name: user.described() for user in users.all()
    }
    for user in read.values():
        user.check()
        known = users.get(user.name)
        assert known is not None
        for row in CATALOGUE:
            for mine, other in zip(user.selectors, known.selectors, strict=True):
                verdicts = mine.verdict(row), other.verdict(row)
                assert (verdicts[0].allowed, sorted(verdicts[0].arguments)) == (
                    verdicts[1].allowed,
                    sorted(verdicts[1].arguments),
                )


def test_rules_that_fail_change_nothing() -> None:
    users = Users()
    put(users, b"b", b"on", b">x")
    with pytest.raises(RulesError) as caught:
        put(users, b"b", b"off", b"+foo")
    assert caught.value.rule == b"+foo"
    assert users.authenticate(b"b", b"x") is users.get(b"b")


def test_a_user_stays_the_same_object() -> None:
    users = Users()
    put(users, b"b", b"on", b"nopass")
    user = users.get(b"b")
    put(users, b"b", b"+@all", b"~*", b"&*")
    assert users.get(b"b") is user and user is not None and user.unrestricted


def test_authentication() -> None:
    users = Users()
    put(users, b"b", b"on", b">x", b">y")
    assert users.authenticate(b"b", b"x") and users.authenticate(b"b", b"y")
    assert users.authenticate(b"b", b"z") is None and users.authenticate(b"c", b"x") is None
    put(users, b"b", b"off")
    assert users.authenticate(b"b", b"x") is None
    put(users, b"b", b"on", b"nopass")
    assert users.authenticate(b"b", b"whatever")


def test_the_password_of_the_default_user() -> None:
    users = Users()
    assert not users.requires_login()
    users.require_password(b"x")
    assert users.requires_login() and users.authenticate(b"default", b"x") is users.default
    users.require_password(b"")
    assert not users.requires_login()
    put(users, b"default", b"off")
    assert users.requires_login()
    assert users.remove(b"default") is None


def test_a_selector_may_take_several_arguments() -> None:
    assert merged([b"on", b"(~a", b"+get)", b"off"]) == [b"on", b"(~a +get)", b"off"]
    with pytest.raises(RulesError):
        merged([b"(~a", b"(~b"])
