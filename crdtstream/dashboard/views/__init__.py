"""What each page shows, as nodes, from values of the model. Pure."""
