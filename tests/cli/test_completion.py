"""Shell completion: what the shells' scripts ask, answered; the scripts themselves; wrong questions."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from child_processes import environment, run


def ask(call: Any, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_SYLVAN_COMPLETE", "bash_complete")
    outcome = call()
    assert outcome.err == ""
    return str(outcome.out).split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sylvan ev", ["plain,evaluate"]),
        ("sylvan train xr-l", ["plain,xr-linear"]),
        ("sylvan train xr", ["plain,xr-linear", "plain,xr-transformer"]),
        ("sylvan train xr-linear --mod", ["plain,--model"]),
        ("sylvan train xr-linear --set beam", ["plain,beam="]),
        ("sylvan train xr-linear --set-text sub", ["plain,sublinear_tf="]),
        ("sylvan train xr-linear --model ru", ["dir,ru"]),
        ("sylvan train xr-linear tr", ["file,tr"]),
        ("sylvan predict ru", ["dir,ru"]),
        ("sylvan predict runs/m te", ["file,te"]),
        ("sylvan predict runs/m te --format svm", ["plain,svmlight"]),
        ("sylvan completion z", ["plain,zsh"]),
        ("sylvan task lang", ["plain,language-model"]),
        ("sylvan task language-model --set emb", ["plain,embedding=", "plain,embedding_learning_rate="]),
        ("sylvan task language-model --sampler midx-r", ["plain,midx-rq"]),
        ("sylvan task language-model --loss nc", ["plain,nce"]),
        ("sylvan task language-model --loss beam", ["plain,beam-tree"]),
        ("sylvan task language-model texts --out ru", ["dir,ru"]),
    ],
)
def test_answers(call: Any, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]) -> None:
    assert ask(call, monkeypatch, line) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_the_program(call: Any, shell: str) -> None:
    outcome = call("completion", shell)
    assert outcome.out.startswith("# ") and f"_SYLVAN_COMPLETE={shell}_complete" in outcome.out


def test_bash_takes_the_script(call: Any, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "sylvan"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sylvan "$@"\n')
    program.chmod(0o755)
    places = environment(PATH=f"{tmp_path}:{os.environ['PATH']}")
    script = (
        f"{call('completion bash').out}\nCOMP_WORDS=(sylvan eva); COMP_CWORD=1; "
        '_sylvan_completion sylvan eva sylvan; echo "${COMPREPLY[@]}"'
    )
    result = run([bash, "-c", script], env=places)
    assert result.stdout.strip() == "evaluate", result


def test_wrong_questions(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_SYLVAN_COMPLETE", "csh_complete")
    assert call(code=2).err.startswith("Error: _SYLVAN_COMPLETE must be")
