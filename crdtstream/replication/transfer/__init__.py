"""Full state transfers, for peers that need older records than the log holds."""
