"""What every training runs on: checkpoints, memory limits, the machine."""
