"""Names of adds: what producers added under which idempotent ID, and what becomes of two adds under one name."""
