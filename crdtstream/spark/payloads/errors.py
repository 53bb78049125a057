"""What can be wrong with payloads."""

from __future__ import annotations


class UndecodablePayload(ValueError):
    """A payload that its schema does not describe; the text says why."""


class UnencodableRow(ValueError):
    """A row that cannot become a payload of the schema."""


class CorruptRecord(RuntimeError):
    """An entry that cannot be decoded, in mode FAILFAST."""
