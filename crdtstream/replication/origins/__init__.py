"""The origins of this process and of other regions: births, names of regions, and founders."""
