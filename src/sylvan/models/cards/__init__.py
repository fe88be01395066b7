"""What there is to know of a saved model: its card, its history, its trees as drawings."""
