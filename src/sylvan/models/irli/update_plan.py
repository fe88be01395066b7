"""What an update of an IRLIClassifier is expected to take, said before it is made."""

from __future__ import annotations

from dataclasses import dataclass

from sylvan.runtime.memory import shown_bytes
from sylvan.runtime.plan import shown_seconds

__all__ = ["IRLIUpdatePlan"]


@dataclass(frozen=True)
class IRLIUpdatePlan:
    """What an update would do."""

    epochs: int
    new_rows: int  # shown in each epoch
    known_rows: int  # shown in each epoch beside them
    seconds: float  # time until the model is changed
    peak_bytes: int  # memory that the update takes beside the model and the rows

    def text(self) -> str:
        """The plan in a line for a terminal."""
        return (
            f"Rows that would be shown to the networks, {self.epochs:,} times: {self.new_rows:,} new ones and "
            f"{self.known_rows:,} known ones; about {shown_seconds(self.seconds)} and {shown_bytes(self.peak_bytes)} "
            "of memory."
        )
