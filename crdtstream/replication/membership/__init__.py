"""Origins and their regions: births, founders, admission, and what follows when one ends."""
