"""One link to a peer: its session, what it sends and what it receives."""
