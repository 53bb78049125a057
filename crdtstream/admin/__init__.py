"""Admin calls to one region or to all, side by side: a client of the Redis ports."""
