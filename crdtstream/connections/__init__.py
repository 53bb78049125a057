"""The machinery of Redis clients: connections, the context of commands, waiting, watching, and statistics."""
