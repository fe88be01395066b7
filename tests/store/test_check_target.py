"""Where a model cannot be saved is known before it is made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kit.errors import raises

from sylvan.errors import ModelError
from sylvan.store import State, check_target, save


def test_nothing_an_empty_folder_and_a_model_are_fine(tmp_path: Path) -> None:
    check_target(tmp_path / "new" / "deeper")
    check_target(tmp_path)
    save(tmp_path / "model", State("example", 1))
    check_target(tmp_path / "model")
    assert not (tmp_path / "new").exists()


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with raises(ModelError, "folder"):
        check_target(tmp_path / "file")
    with pytest.raises(ModelError):
        check_target(tmp_path / "file" / "below")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with raises(ModelError, "model"):
        check_target(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with raises(ModelError, "written"):
        check_target(tmp_path / "model")
