"""What every training runs on: jobs, and runners on threads, within memory, beside a checkpoint."""

from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.checkpointed import Checkpointed, opened_runner
from sylvan.runtime.jobs import ARRAY, Folder, Job, Once, Packing, Results, Runner
from sylvan.runtime.memory import WithinMemory

__all__ = [
    "ARRAY",
    "Checkpoint",
    "Checkpointed",
    "Folder",
    "Job",
    "Once",
    "Packing",
    "Results",
    "Runner",
    "WithinMemory",
    "opened_runner",
]
