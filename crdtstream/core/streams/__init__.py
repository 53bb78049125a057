"""The state of one stream, with what lies beside it: expiry, copies, removals, idempotent adds."""
