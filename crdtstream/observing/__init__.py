"""What the programs for operators ask regions, and how they read the replies: a client of the Redis ports."""
