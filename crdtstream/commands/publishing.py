"""PUBLISH, SUBSCRIBE and their kin: messages between the clients of one region.

A message reaches the clients of this region and no others: it is neither logged nor replicated. With several shards it
goes from the one that it was published in to the others (`Ready.published`), except for a shard channel's. Shard
channels are channels with a space of names of their own. A client that subscribes in protocol 2 may only subscribe,
unsubscribe, PING, QUIT and RESET until it has no subscription left (dispatch.py); in protocol 3 messages are push data,
and it may do anything.

Each subscription is confirmed on its own, even while CLIENT REPLY is off. A message goes out after the reply to the
command that published it.

Reference: `pubsub.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.client import REPLIES_ON, Client
from crdtstream.connections.command import (
    CHANNEL_AT_1,
    CHANNELS_FROM_1,
    PATTERNS_FROM_1,
    Command,
    help_row,
    keys_at,
    keys_from,
)
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.connections.subscriptions import CHANNEL, PATTERN, SHARD
from crdtstream.protocols import replies
from crdtstream.protocols.glob import matches, tokens_of


def publish(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """As in Redis Cluster, other shards hear of it, and their listeners are not counted."""
    if context.shards is not None:
        context.pubsub.published.append((argv[1], argv[2]))
    return replies.integer(context.pubsub.publish(argv[1], argv[2]))


def publish_shard(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(context.pubsub.publish_shard(argv[1], argv[2]))


# Subscribing


def subscribe(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return begin(context, client, CHANNEL, argv)


def subscribe_patterns(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return begin(context, client, PATTERN, argv)


def subscribe_shards(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return begin(context, client, SHARD, argv)


def begin(context: Context, client: Client, kind: int, argv: list[bytes]) -> Reply:
    parts: list[bytes] = []
    for name in argv[1:]:
        context.pubsub.add(client, kind, name)
        parts.append(confirmation(client, kind, argv[0], name))
    return confirmed(context, client, parts)


def unsubscribe(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return end(context, client, CHANNEL, argv)


def unsubscribe_patterns(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return end(context, client, PATTERN, argv)


def unsubscribe_shards(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return end(context, client, SHARD, argv)


def end(context: Context, client: Client, kind: int, argv: list[bytes]) -> Reply:
    """End the named subscriptions, or all of this kind."""
    parts: list[bytes] = []
    for name in argv[1:] or list(client.topics[kind]):
        context.pubsub.remove(client, kind, name)
        parts.append(confirmation(client, kind, argv[0], name))
    return confirmed(context, client, parts or [confirmation(client, kind, argv[0], None)])


def confirmation(client: Client, kind: int, command: bytes, name: bytes | None) -> bytes:
    """What a client is told of one subscription, with the number of those left; shard channels count separately."""
    channels, patterns, shards = client.topics
    left = len(shards) if kind == SHARD else len(channels) + len(patterns)
    told = replies.null_bulk(client.protocol) if name is None else replies.bulk(name)
    return replies.push([replies.bulk(command.lower()), told, replies.integer(left)], client.protocol)


def confirmed(context: Context, client: Client, parts: list[bytes]) -> bytes:
    """The confirmations as a reply, or as a message where replies are switched off."""
    if client.reply_mode == REPLIES_ON:
        return b"".join(parts)
    context.pubsub.messages.append((client, b"".join(parts)))
    return b""


# PUBSUB


def channels(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return listened(context, CHANNEL, argv)


def shard_channels(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return listened(context, SHARD, argv)


def listened(context: Context, kind: int, argv: list[bytes]) -> bytes:
    """The names that anyone listens to, of those that match [pattern]."""
    if len(argv) > 3:
        raise CommandError(
            f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try PUBSUB HELP."
        )
    names = context.pubsub.names(kind)
    if len(argv) == 3:
        tokens = tokens_of(argv[2])
        names = [name for name in names if matches(tokens, name)]
    return replies.bulk_array(names)


def listener_counts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return counted(context, client, CHANNEL, argv[2:])


def shard_listener_counts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return counted(context, client, SHARD, argv[2:])


def counted(context: Context, client: Client, kind: int, names: list[bytes]) -> bytes:
    items: list[bytes] = []
    for name in names:
        items += [replies.bulk(name), replies.integer(context.pubsub.count(kind, name))]
    return replies.array(items)


def pattern_count(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.integer(len(context.pubsub.names(PATTERN)))


PUBSUB = [
    Command(
        "pubsub|channels",
        channels,
        arity=-2,
        flags="pubsub loading stale",
        since="2.8.0",
        summary="Returns the active channels.",
        syntax="[pattern]",
        help=(
            "CHANNELS [<pattern>]",
            "    Return the currently active channels matching a <pattern> (default: '*').",
        ),
    ),
    help_row("pubsub", since="6.2.0", line="    Print this help."),
    Command(
        "pubsub|numpat",
        pattern_count,
        arity=2,
        flags="pubsub loading stale",
        since="2.8.0",
        summary="Returns a count of unique pattern subscriptions.",
        help=("NUMPAT", "    Return number of subscriptions to patterns."),
    ),
    Command(
        "pubsub|numsub",
        listener_counts,
        arity=-2,
        flags="pubsub loading stale",
        since="2.8.0",
        summary="Returns a count of subscribers to channels.",
        syntax="[channel...]",
        help=(
            "NUMSUB [<channel> ...]",
            "    Return the number of subscribers for the specified channels, excluding",
            "    pattern subscriptions(default: no channels).",
        ),
    ),
    Command(
        "pubsub|shardchannels",
        shard_channels,
        arity=-2,
        flags="pubsub loading stale",
        since="7.0.0",
        summary="Returns the active shard channels.",
        syntax="[pattern]",
        help=(
            "SHARDCHANNELS [<pattern>]",
            "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        ),
    ),
    Command(
        "pubsub|shardnumsub",
        shard_listener_counts,
        arity=-2,
        flags="pubsub loading stale",
        since="7.0.0",
        summary="Returns the count of subscribers of shard channels.",
        syntax="[shardchannel...]",
        help=(
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Return the number of subscribers for the specified shard level channel(s)",
        ),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "publish",
        publish,
        arity=3,
        flags="pubsub loading stale fast may_replicate",
        channels=CHANNEL_AT_1,
        since="2.0.0",
        group="pubsub",
        summary="Posts a message to a channel of this region.",
        syntax="channel message",
    ),
    Command(
        "spublish",
        publish_shard,
        arity=3,
        flags="pubsub loading stale fast may_replicate",
        channels=CHANNEL_AT_1,
        keys=keys_at(1, "not_key"),
        since="7.0.0",
        group="pubsub",
        summary="Posts a message to a shard channel of this region.",
        syntax="shardchannel message",
    ),
    Command(
        "subscribe",
        subscribe,
        arity=-2,
        flags="pubsub noscript loading stale",
        channels=CHANNELS_FROM_1,
        since="2.0.0",
        group="pubsub",
        summary="Listens for messages published to channels.",
        syntax="channel...",
    ),
    Command(
        "psubscribe",
        subscribe_patterns,
        arity=-2,
        flags="pubsub noscript loading stale",
        channels=PATTERNS_FROM_1,
        since="2.0.0",
        group="pubsub",
        summary="Listens for messages published to channels that match one or more patterns.",
        syntax="pattern:(pattern)...",
    ),
    Command(
        "ssubscribe",
        subscribe_shards,
        arity=-2,
        flags="pubsub noscript loading stale",
        channels=CHANNELS_FROM_1,
        keys=keys_from(1, "not_key"),
        since="7.0.0",
        group="pubsub",
        summary="Listens for messages published to shard channels.",
        syntax="shardchannel...",
    ),
    Command(
        "unsubscribe",
        unsubscribe,
        arity=-1,
        flags="pubsub noscript loading stale",
        since="2.0.0",
        group="pubsub",
        summary="Stops listening to messages posted to channels.",
        syntax="[channel...]",
    ),
    Command(
        "punsubscribe",
        unsubscribe_patterns,
        arity=-1,
        flags="pubsub noscript loading stale",
        since="2.0.0",
        group="pubsub",
        summary="Stops listening to messages published to channels that match one or more patterns.",
        syntax="[pattern...]",
    ),
    Command(
        "sunsubscribe",
        unsubscribe_shards,
        arity=-1,
        flags="pubsub noscript loading stale",
        keys=keys_from(1, "not_key"),
        since="7.0.0",
        group="pubsub",
        summary="Stops listening to messages posted to shard channels.",
        syntax="[shardchannel...]",
    ),
    Command(
        "pubsub",
        arity=-2,
        since="2.8.0",
        group="pubsub",
        summary="A container for Pub/Sub commands.",
        subcommands=PUBSUB,
    ),
]
