"""The login of a Redis user."""

from __future__ import annotations

from crdtstream.dashboard.nodes import Tag, node, panel, remark


def login(target: str, complaint: str) -> Tag:
    user = node(
        "label",
        "field",
        "User",
        node("input", "", name="user", value="default", autocomplete="username", required=True),
    )
    password = node(
        "label",
        "field",
        "Password",
        node("input", "", name="password", type="password", autocomplete="current-password", autofocus=True),
    )
    return panel(
        "Log in",
        remark("With a user of the Redis port. What you see and do here, you see and do with its rights."),
        node("p", "complaint", complaint, role="alert") if complaint else None,
        node(
            "form",
            "stack",
            user,
            password,
            node("input", "", name="to", value=target, type="hidden"),
            node("div", "buttons", node("button", "main", "Log in", type="submit")),
            action="/login",
            method="post",
        ),
        classes="narrow",
    )
