"""What only a release needs is there, is left out without being named, and continuous integration runs it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import release_tests

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("beginning", release_tests.RELEASE)
def test_what_is_listed_is_there(beginning: str) -> None:
    place, _, test = beginning.partition("::")
    function, _, document = test.rstrip("]").partition("[")
    files = list((ROOT / "tests").glob(f"{place}*"))
    assert files and all(f"def {function}" in path.read_text("utf-8") for path in files)
    assert not document or (ROOT / document).exists()


@pytest.mark.parametrize(
    ("words", "marks", "out"),
    [
        ([], "", True), (["tests"], "not slow", True), (["tests"], "release", False), (["tests/annif"], "", False),
        (["tests", "tests/typing"], "", False), (["tests/serve/test_page_tag.py::test_one"], "not slow", False),
    ],
)  # fmt: skip
def test_they_are_left_out_unless_they_are_named(words: list[str], marks: str, out: bool) -> None:
    config = SimpleNamespace(args=[str(ROOT / word) for word in words], option=SimpleNamespace(markexpr=marks))
    assert release_tests.left_out(config) is out  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "words", "marks", "needless"),
    [
        ("serve/test_page_tag.py", [], "release", False),  # all of it is listed,
        ("docs/test_documents.py", [], "release", False),  # and one test
        ("serve/test_ranking.py", [], "release", True),
        ("serve/test_ranking.py", [], "release or slow", False), ("serve/test_ranking.py", [], "", False),
        ("serve", [], "release", False), ("serve", [], "", False),
        ("serve/test_page_tag.py", [], "", True), ("serve/test_page_tag.py", [], "not slow", True),
        ("serve/test_page_tag.py", [], "release or slow", False), ("docs/test_documents.py", [], "", False),
        ("serve/test_page_tag.py", ["tests/serve"], "", False),
    ],
)  # fmt: skip
def test_files_of_which_no_test_is_run_are_not_read(file: str, words: list[str], marks: str, needless: bool) -> None:
    config = SimpleNamespace(args=[str(ROOT / word) for word in words], option=SimpleNamespace(markexpr=marks))
    assert release_tests.needless(ROOT / "tests" / file, config) is needless  # type: ignore[arg-type]
