"""The stories of active-active streams, in strict mode: `XADD key 100` mints 100-1 in region 1, 100-2 in region 2.

Each story has its own key and ends with every group read by the same consumer in all regions, so that after all stories
`XRANGE` and `XINFO GROUPS` of every key are the same everywhere.
"""

from __future__ import annotations

from crdtstream.demo.cluster import NAMES
from crdtstream.demo.story import Cut, Differ, Heal, Settle, Story, Sync, at

EAST_WEST = ("east", "west")
STRICT_ERROR = (
    "error: The ID specified in XADD is a full ID, which the ID mode 'strict' refuses: use '*' or only the"
    " milliseconds part"
)

CONCURRENT_ADDS = Story(
    "Concurrent adds",
    "Two regions add to one stream at once, even at the same millisecond: both entries live, and no ID is made twice.",
    EAST_WEST,
    (
        at(east="XADD orders 100 item tea -> 100-1", west="XADD orders 100 item rum -> 100-2"),
        at(east="XRANGE orders - + -> [100-1]", west="XRANGE orders - + -> [100-2]"),
        Sync(),
        at(east="XRANGE orders - + -> [100-1, 100-2]", west="XRANGE orders - + -> [100-1, 100-2]"),
        at(east="XADD orders 100 item oil -> 100-65537", west=f"XADD orders 101-7 item ink -> {STRICT_ERROR}"),
        Sync(),
        at("XRANGE orders - + -> [100-1, 100-2, 100-65537]"),
    ),
)

OBSERVED_REMOVE = Story(
    "Observed-remove",
    "DEL removes the entries that its region has seen. An entry that another region adds concurrently survives.",
    EAST_WEST,
    (
        at(east="XADD cart 100 item tea -> 100-1"),
        Sync(),
        at("XRANGE cart - + -> [100-1]"),
        at(east="DEL cart -> 1", west="XADD cart 100 item rum -> 100-2"),
        Sync(),
        at("XRANGE cart - + -> [100-2]"),
    ),
)

DEL_WINS = Story(
    "Delete wins over a concurrent group",
    "DEL removes g1, which it has seen, and also g2, which another region creates concurrently.",
    EAST_WEST,
    (
        at(east="XGROUP CREATE mail g1 0 MKSTREAM -> OK"),
        Sync(),
        at("XINFO GROUPS mail -> [g1]"),
        at(east="DEL mail -> 1", west="XGROUP CREATE mail g2 0 -> OK"),
        at(east="EXISTS mail -> 0", west="XINFO GROUPS mail -> [g1, g2]"),
        Sync(),
        at("EXISTS mail -> 0"),
    ),
)

DESTROY_WINS = Story(
    "Destroy wins, in three regions",
    "West destroys g1 while north, which has not received it, creates its own g1: both are gone everywhere.",
    NAMES,
    (
        at(east="XGROUP CREATE news g1 0 MKSTREAM -> OK"),
        Sync(EAST_WEST),
        at(
            east="XINFO GROUPS news -> [g1]",
            west="XINFO GROUPS news -> [g1]",
            north="XINFO GROUPS news -> error: no such key",
        ),
        at(west="XGROUP DESTROY news g1 -> 1", north="XGROUP CREATE news g1 0 MKSTREAM -> OK"),
        Sync(),
        at("EXISTS news -> 0"),
    ),
)

LATE_ENTRY = Story(
    "A late entry: XREAD skips it, a group does not",
    "115-2 arrives in east after readers there have passed 120-1. XREAD continues after 120-1; XREADGROUP delivers it.",
    EAST_WEST,
    (
        at(east="XADD ticks 110 price 7 -> 110-1", west="XADD ticks 115 price 8 -> 115-2"),
        at(east="XADD ticks 120 price 9 -> 120-1"),
        at(east="XADD ticks 130 price 6 -> 130-1"),
        at(east="XGROUP CREATE ticks desk 0 -> OK"),
        at(east="XREAD COUNT 2 STREAMS ticks 0 -> [110-1, 120-1]"),
        at(east="XREADGROUP GROUP desk ann COUNT 2 STREAMS ticks > -> [110-1, 120-1]"),
        Sync(),
        at(east="XREAD COUNT 2 STREAMS ticks 120-1 -> [130-1]"),
        at(east="XREADGROUP GROUP desk ann STREAMS ticks > -> [115-2, 130-1]"),
        at(east="XACK ticks desk 110-1 115-2 120-1 130-1 -> 4"),
        Sync(),
        at("XREADGROUP GROUP desk ann STREAMS ticks > -> nothing"),
    ),
)

CONTIGUOUS_ACK = Story(
    "Contiguous XACK, and a consumer that moves to another region",
    "An acknowledgement is replicated once everything before it is acknowledged. So alice, moving to west and then"
    " north, does not receive acknowledged entries again, but does receive an entry that she has not acknowledged.",
    NAMES,
    (
        at(east="XADD jobs 110 do wash -> 110-1"),
        at(east="XADD jobs 120 do dry -> 120-1"),
        at(east="XADD jobs 130 do fold -> 130-1"),
        at(east="XGROUP CREATE jobs crew 0 -> OK"),
        at(east="XREADGROUP GROUP crew alice STREAMS jobs > -> [110-1, 120-1, 130-1]"),
        at(east="XACK jobs crew 110-1 -> 1 effects=1"),
        at(east="XACK jobs crew 130-1 -> 1 effects=0"),
        at(east="XACK jobs crew 120-1 -> 1 effects=1"),
        Sync(),
        at(west="XREADGROUP GROUP crew alice STREAMS jobs > -> nothing"),
        at(east="XADD jobs 140 do iron -> 140-1"),
        at(east="XREADGROUP GROUP crew alice STREAMS jobs > -> [140-1]"),
        Sync(),
        at(west="XREADGROUP GROUP crew alice STREAMS jobs > -> [140-1]"),
        at(west="XACK jobs crew 140-1 -> 1 effects=1"),
        Sync(),
        at(north="XREADGROUP GROUP crew alice STREAMS jobs > -> nothing"),
        at("XPENDING jobs crew - + 10 -> []"),
    ),
)

PARTITION = Story(
    "A link is cut, and then west is alone",
    "With one link down, effects travel through the third region. With west cut off, both sides keep reading, writing"
    " and acknowledging; after the heal all three are equal, and nothing that was acknowledged is delivered again.",
    NAMES,
    (
        at(east="XGROUP CREATE payments billing 0 MKSTREAM -> OK"),
        Heal(),
        Cut("east", "west"),
        at(east="XADD payments 200 sum 5 -> 200-1", west="XADD payments 201 sum 6 -> 201-2"),
        Settle(),
        at("XRANGE payments - + -> [200-1, 201-2]"),
        Cut("west", "north"),
        at(
            east="XADD payments 210 sum 7 -> 210-1",
            west="XADD payments 205 sum 8 -> 205-2",
            north="XADD payments 220 sum 9 -> 220-3",
        ),
        Settle(("east", "north")),
        at(
            east="XREADGROUP GROUP billing alice STREAMS payments > -> [200-1, 201-2, 210-1, 220-3]",
            west="XREADGROUP GROUP billing alice STREAMS payments > -> [200-1, 201-2, 205-2]",
        ),
        at(
            east="XACK payments billing 200-1 201-2 210-1 220-3 -> 4",
            west="XACK payments billing 200-1 201-2 205-2 -> 3",
        ),
        at(east="WAIT 1 10000 -> 1", west="WAIT 1 100 -> 0"),
        Differ("east", "west"),
        Heal(),
        at(west="WAIT 2 10000 -> 2"),
        at("XRANGE payments - + -> [200-1, 201-2, 205-2, 210-1, 220-3]"),
        at("XREADGROUP GROUP billing alice STREAMS payments > -> nothing"),
        at("XPENDING payments billing - + 10 -> []"),
    ),
)

STORIES = (
    CONCURRENT_ADDS,
    OBSERVED_REMOVE,
    DEL_WINS,
    DESTROY_WINS,
    LATE_ENTRY,
    CONTIGUOUS_ACK,
    PARTITION,
)
KEYS = ("orders", "cart", "mail", "news", "ticks", "jobs", "payments")
