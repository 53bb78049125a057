"""`python -m docs.reference`: write the generated pages."""

from __future__ import annotations

from docs.reference.pages import write_pages

if __name__ == "__main__":
    for path in write_pages():
        print(path)
