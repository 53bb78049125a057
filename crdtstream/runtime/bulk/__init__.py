"""The bulk port."""
