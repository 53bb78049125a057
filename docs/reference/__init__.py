"""Pages that are written from the code: `python -m docs.reference` writes them, a test compares them."""
