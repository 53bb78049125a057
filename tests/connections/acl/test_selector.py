"""Which commands, keys and channels a selector allows."""

from __future__ import annotations

import pytest

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.table import TABLE
from crdtstream.connections.acl.selector import RuleError, Selector, in_parentheses, selector_of
from crdtstream.connections.command import READ, WRITE, Command


def of(*rules: bytes) -> Selector:
    selector = Selector()
    for rule in rules:
        selector.apply(rule, CATALOGUE.named)
    return selector


def row(name: bytes) -> Command:
    found = CATALOGUE.named(name)
    assert found is not None and TABLE
    return found


def test_the_last_rule_that_matches_decides() -> None:
    selector = of(b"+@stream", b"-xadd", b"+@write", b"-xdel")
    allowed = [name for name in (b"xadd", b"xdel", b"xlen", b"del", b"ping") if selector.verdict(row(name)).allowed]
    assert allowed == [b"xadd", b"xlen", b"del"]


def test_a_rule_on_a_container_or_its_category_covers_its_subcommands() -> None:
    assert of(b"+config").verdict(row(b"config|get")).allowed
    assert of(b"+config", b"-config|set").verdict(row(b"config|get")).allowed
    assert not of(b"+config", b"-config|set").verdict(row(b"config|set")).allowed
    assert not of(b"+@all", b"-@slow").verdict(row(b"config|get")).allowed


def test_a_new_rule_replaces_those_on_the_same() -> None:
    assert of(b"+config|get", b"-config|set", b"+@read", b"-config").described_commands() == b"-@all +@read -config"
    assert of(b"+@read", b"+xadd", b"-@read").described_commands() == b"-@all +xadd -@read"


def test_first_arguments() -> None:
    verdict = of(b"+select|0", b"+select|Ab").verdict(row(b"select"))
    assert verdict.holds([b"SELECT", b"0"]) and verdict.holds([b"SELECT", b"aB"])
    assert not verdict.holds([b"SELECT", b"1"]) and not verdict.holds([b"SELECT"])


def test_keys() -> None:
    selector = of(b"%R~r*", b"%W~w*", b"~b*", b"%R~x", b"%W~x")
    rights = {
        name: [needs for needs in (0, READ, WRITE, READ | WRITE) if selector.allows_key(name, needs)]
        for name in (b"r1", b"w1", b"b1", b"x", b"n")
    }
    every = [0, READ, WRITE, READ | WRITE]
    assert rights == {b"r1": [0, READ], b"w1": [0, WRITE], b"b1": every, b"x": every, b"n": []}


def test_a_change_takes_effect_after_a_verdict() -> None:
    selector = of(b"+@all")
    assert selector.verdict(row(b"xadd")).allowed
    selector.apply(b"-@write", CATALOGUE.named)
    assert not selector.verdict(row(b"xadd")).allowed
    selector.apply(b"allcommands", CATALOGUE.named)
    assert selector.verdict(row(b"xadd")).allowed


def test_patterns_that_mean_something_between_parentheses_are_quoted() -> None:
    selector = of(b'~a"b', b"~c)", b"&\\", b"+xlen")
    assert in_parentheses(selector) == b'("~a\\"b" "~c)" resetchannels "&\\\\" -@all +xlen)'
    assert selector_of(in_parentheses(selector), CATALOGUE.named).words() == selector.words()


@pytest.mark.parametrize(
    "rule", [b"+select|a b", b"~a\tb", b"&\0", b"%RR~a", b"%", b"x", b"+@", b"-config|", b"+xadd|"]
)
def test_what_is_no_rule(rule: bytes) -> None:
    with pytest.raises(RuleError):
        of(rule)
