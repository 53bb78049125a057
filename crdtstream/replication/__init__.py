"""Replication between regions, in layers; each folder imports from those above it in this list only.

wire_pb2     the messages, generated from proto/
values/      what messages carry once it is validated, and the checks: bounds, progress of members, states
log/         the region's own log: turns, its history as peers read it, and the gates that a batch passes before it
audit/       comparison of states between regions
origins/     the origins of this process and of other regions, their names and the founders of the cluster
transfer/    both ends of a full state transfer
links/       one link: its session, what it sends and what it receives
exchange/    all links of a region together
membership/  which origins belong to the cluster: admission, leaving, starting over
"""
