"""The log of events, and the output of libraries in it."""
