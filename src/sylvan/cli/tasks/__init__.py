"""What the verb ``task`` trains: one file a task, and what a run of each shares."""
