"""Traces: loaded only where they are configured."""
