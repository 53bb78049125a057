"""The page of `report --html`: what it adds up, its charts, and how they become one file."""
