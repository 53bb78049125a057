"""A web page on all regions, in a process of its own: a client of their Redis ports, read by `crdtstream dashboard`.

    reading     asks the regions, finds the others, and keeps what they replied last
    model       what the replies mean: agreement, who is behind, links, alerts, differences. Pure
    history     samples of the last hour, and how far regions are behind in time. Pure
    decoding    an entry's fields as text, JSON, MessagePack or hex. Pure
    pages       what the browser shows; they decide nothing

Only `pages` and `server` import NiceGUI, and nothing imports these before the command runs.
"""
