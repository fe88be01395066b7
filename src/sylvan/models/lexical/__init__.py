"""Labels found by their own words in texts."""
