"""The pages about the papers name files that exist, and every table's rows name code or results."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sylvan"
PATH = re.compile(r"`([\w.]+(?:/[\w./]*|\.py))`")  # of a file or a folder
APART = ("native/", "tests/", "src/")  # the others are the package's
DIFFERS = "## Differs by default"
FORM = re.compile(r"`(\w+)\((\w+=[^`]*)\)`")  # a class with the parameters that give a paper's form
DEFAULTS = (ROOT / "tests" / "defaults.txt").read_text("utf-8")
PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
PAPERS = [page for page in PAGES if page.stem not in ("index", "tables")]
HOW_MANY = {"PECOS": (6, 9), "IRLI": (4, 6), "CANE": (3, 4), "MIDX": (10, 7)}  # tables and figures of each paper


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_exist(page: Path) -> None:
    named = PATH.findall(page.read_text("utf-8"))
    assert named or page.stem == "index"
    missing = [path for path in named if not (ROOT / path if path.startswith(APART) else PACKAGE / path).exists()]
    assert not missing, f"{page.name} names files that don't exist: {', '.join(missing)}"


def test_every_paper_has_a_page() -> None:
    assert [page.stem for page in PAGES] == ["cane", "index", "irli", "midx", "pecos", "tables"]


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_every_row_leads_to_code_and_a_test_or_to_results(page: Path) -> None:
    table, _, _ = page.read_text("utf-8").partition(DIFFERS)
    rows = [line for line in table.split("\n") if line.startswith("| ")][1:]
    for row in rows:
        _, _, code, test = (cell.strip() for cell in row.split("|")[1:5])
        assert bool(PATH.search(code)) == bool(test), f"{page.name}: {row}"
        assert test or "../results/" in code, f"{page.name}: {row}"


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.stem)
def test_what_differs_by_default_does(page: Path) -> None:
    """Each row says what was measured or that nothing was, and how to have the paper's form, if it can be had. The
    parameters that it names exist, and have another value by default."""
    _, found, table = page.read_text("utf-8").partition(DIFFERS)
    assert found
    rows = [line for line in table.partition("\n## ")[0].split("\n") if line.startswith("| ")][1:]
    assert len(rows) > 5
    for row in rows:
        assert row.count("|") == 5, row
        _, _, form, measured = (cell.strip() for cell in row.split("|")[1:5])
        assert "](" in measured or measured.startswith("no"), row
        assert "`" in form or form.startswith("none"), row
        for owner, arguments in FORM.findall(form):
            call = ast.parse(f"f({arguments})", mode="eval").body
            assert isinstance(call, ast.Call)
            for keyword in call.keywords:
                line = re.search(rf"^{owner}\({keyword.arg}\) = (.+?)(?: in |$)", DEFAULTS, re.MULTILINE)
                assert line or keyword.arg == "preset", f"{page.name}: {owner} has no parameter {keyword.arg}"
                assert not line or line[1] != ast.unparse(keyword.value), f"{page.name}: {row}"


@pytest.mark.parametrize("paper", HOW_MANY)
def test_every_table_and_figure_was_run_or_is_said_why_not(paper: str) -> None:
    page = (ROOT / "docs" / "papers" / "tables.md").read_text("utf-8")
    (section,) = re.findall(rf"^## {paper}\n(.+?)(?:\n## |\Z)", page, re.MULTILINE | re.DOTALL)
    listed: dict[str, list[int]] = {"Table": [], "Figure": []}
    for row in section.strip().split("\n")[2:]:
        names, _, here = (cell.strip() for cell in row.split("|")[1:4])
        for kind, numbers in re.findall(r"(Table|Figure)s? ([\d, to]*\d)", names):
            for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
                listed[kind] += range(int(first), int(last or first) + 1)
        linked = "](../results/" in here or "`tests/" in here
        assert here.startswith(("run", "in part: ", "not run: ", "nothing to run")), row
        assert linked or not here.startswith(("run", "in part: ")), row
    tables, figures = HOW_MANY[paper]
    assert sorted(listed["Table"]) == list(range(1, tables + 1))
    assert sorted(listed["Figure"]) == list(range(1, figures + 1))


def test_the_walk_through_the_house_names_what_is_there() -> None:
    page = (ROOT / "docs" / "background" / "record-to-answer.md").read_text("utf-8")
    assert len(page.splitlines()) <= 80
    steps = re.findall(r"`([\w/]+\.py)(?::(\w+))?`", page)
    assert len(steps) > 30
    for path, name in steps:
        body = ast.parse((PACKAGE / path).read_text("utf-8")).body
        defined = {getattr(node, "name", None) for node in body}
        defined |= {ast.unparse(target) for node in body if isinstance(node, ast.Assign) for target in node.targets}
        assert not name or name in defined, f"{path} has no {name}"
