"""The rows of the table: each measures one thing with its own servers. `catalog` lists them by name."""
