"""The calls of the bulk port, pure: reading intervals of entries from a region, adding columns of rows to it.

The contract is proto/crdtstream/bulk/bulk.proto.
"""
