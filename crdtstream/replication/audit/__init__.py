"""Hash sums of states, compared between regions at equal vectors."""
