"""Archives that are tables: what Delta knows of one, and reading its files without it."""
