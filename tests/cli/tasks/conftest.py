"""Trainings without pictures, which take longer to draw than small trainings take."""

from __future__ import annotations

from typing import Any

import pytest

from sylvan.errors import DataError


@pytest.fixture
def pictures() -> None:
    """For a test that asks for the pictures of a training."""


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws nothing, as where matplotlib is missing, unless a test asks for pictures."""

    def refuse(*_: Any) -> None:
        raise DataError("No picture was drawn.")

    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("sylvan.tasks.base.draw_convergence", refuse)
