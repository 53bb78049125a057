"""The load on the servers: what a row asks for, and the process that sends it."""
