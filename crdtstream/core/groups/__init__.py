"""Consumer groups: what was delivered, what is pending, and where the next read begins."""
