"""What is shown of the measurements: results, the table, JSON and curves."""
