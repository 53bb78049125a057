"""What a region says of itself: its events, and whether it can serve and has room."""
