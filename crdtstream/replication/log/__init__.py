"""The region's own log of turns, and the gates that a batch passes before it is applied and logged."""
