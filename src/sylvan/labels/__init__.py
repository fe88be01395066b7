"""Labels as people have them: what a label is called, and its id."""
