"""The forms of actions: first the fields, then the command and a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crdtstream.dashboard.actions import ACTIONS, GROUP, KEY, Action, command_line
from crdtstream.dashboard.addresses import url
from crdtstream.dashboard.nodes import Tag, link, node, panel, remark, table
from crdtstream.dashboard.outcomes import ActionOutcome

AGAIN = "Repeat the command once what is wrong is mended: shards that are done say so, and are left alone."
DANGEROUS = ("destroy", "evict", "leave", "trim")


def overview(may_act: bool) -> Tag:
    if not may_act:
        return panel("Actions", remark("This dashboard only reads. Start it with --actions to let users act."))
    items = [
        node(
            "article",
            "card",
            node("header", "", link(action.title, url("/actions", action=action.name))),
            remark(action.told),
        )
        for action in ACTIONS.values()
    ]
    return panel("Actions", remark("Each shows its command and asks before it runs, with your rights."), *items)


def form(action: Action, fields: Mapping[str, bytes], regions: Sequence[str], region: str, complaint: str) -> Tag:
    inputs = [field_of(field.name, field.label, field.hint, fields[field.name]) for field in action.fields]
    options = [node("option", "", name, value=name, selected=name == region) for name in regions]
    return panel(
        action.title,
        remark(action.told),
        node("p", "complaint", complaint, role="alert") if complaint else None,
        node(
            "form",
            "stack",
            node("input", "", type="hidden", name="action", value=action.name),
            node("label", "field", "In region", node("select", "", *options, name="region")),
            *inputs,
            node("div", "buttons", node("button", "main", "Show the command", type="submit", name="ask", value="yes")),
            action="/actions",
            method="get",
        ),
        classes="narrow",
    )


def field_of(name: str, label: str, hint: str, value: bytes) -> Tag:
    """A name that is no text stays as it is, in hexadecimal."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return node("label", "field", f"{label}, hexadecimal", node("input", "", name=f"{name}-hex", value=value.hex()))
    return node("label", "field", label, node("input", "", name=name, value=text, placeholder=hint, autocomplete="off"))


def question(
    action: Action, fields: Mapping[str, bytes], region: str, user: str, token: str, words: list[bytes]
) -> Tag:
    hidden = [
        node("input", "", type="hidden", name=name, value=value)
        for name, value in (("action", action.name), ("region", region), ("token", token))
    ]
    hidden += [
        node("input", "", type="hidden", name=f"{name}-hex", value=value.hex()) for name, value in fields.items()
    ]
    kind = "danger" if action.name in DANGEROUS else "main"
    back = url("/actions", action=action.name, region=region, **fields)
    return panel(
        f"{action.title}?",
        remark(action.told),
        node("p", "", f"In region {region}, as user {user}:"),
        node("pre", "command", command_line(words)),
        node(
            "form",
            "",
            *hidden,
            node("div", "buttons", node("button", kind, "Run it", type="submit"), link("Back", back, "button")),
            action="/act",
            method="post",
        ),
        classes="narrow",
    )


def outcome(done: ActionOutcome) -> Tag:
    """What was done, by shard where there are several; a command that is for all shards may be repeated."""
    title = "Done in part" if done.is_partial else "Refused" if done.is_error else "Done"
    command = node("pre", "command", done.command)
    if len(done.shards) == 1:
        (one,) = done.shards
        told = node("p", "complaint" if one.is_error else "", f"{one.label} replied: {one.reply}", role="status")
        return panel(title, command, told, classes="narrow")
    rows = [(each.label, node("td", "complaint" if each.is_error else "", each.reply)) for each in done.shards]
    return panel(
        title,
        command,
        table(("shard", "replied"), rows),
        remark(AGAIN) if done.is_error else None,
        node("div", "buttons", link("Repeat", done.again, "button")),
        classes="narrow",
    )


def target(fields: Mapping[str, bytes]) -> str:
    """Where to look at what was done."""
    if fields.get(GROUP):
        return url("/group", key=fields[KEY], group=fields[GROUP])
    return url("/stream", key=fields[KEY]) if fields.get(KEY) else "/"
