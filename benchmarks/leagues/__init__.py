"""The three leagues: as people work, tuned, and by the size of the data."""
