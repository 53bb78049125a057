"""Values that everything above is made of: origins, dots, vectors, IDs, intervals, chains."""
