"""The training loop that every network shares: steps, schedules, checkpoints, several processes."""
