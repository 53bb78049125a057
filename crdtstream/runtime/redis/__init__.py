"""The Redis port: sockets to requests, replies to sockets."""
