"""Values that several layers of replication share, without a link or a log."""
