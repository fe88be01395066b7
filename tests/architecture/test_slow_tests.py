"""What daily work leaves out is listed and there, and leaves a test of every file; continuous integration runs all."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from slow_tests import LIST, name_of, slow_tests

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
# Files none of whose tests is quick, and what they wait for.
WHOLLY_SLOW: dict[str, str] = {
    "contract/test_any_parameters.py": "every parameter of every estimator",
    "distributed/test_ray_more.py": "a Ray cluster",
    "distributed/test_ray_ranking.py": "a Ray cluster",
    "distributed/test_ray_runner.py": "a Ray cluster",
    "distributed/test_ray_train.py": "a Ray cluster",
    "docs/test_docstrings.py": "every example of a docstring",
    "hostile/test_hostile.py": "thousands of damaged folders",
    "hostile/test_unpickling.py": "every model's folder with pickles in every place",
    "neural/text/test_network_sizes.py": "networks in processes with little memory",
    "ranking/test_memory.py": "peaks of memory, in processes of their own",
    "ranking/test_tail.py": "a training with rare labels",
    "sampling/test_draws.py": "as many draws as a comparison needs",
    "serve/test_page_access.py": "a browser",
    "serve/test_page_queue.py": "a browser",
    "serve/test_page_states.py": "a browser",
    "serve/test_page_tag.py": "a browser",
    "serve/test_page_tree.py": "a browser",
}


@cache
def functions(path: Path) -> set[str]:
    """The tests that a file defines, as the list names them."""
    found, within = set(), ""
    for kind, indented, name in re.findall(r"^(class|( *)(?:async )?def) (\w+)", path.read_text("utf-8"), re.MULTILINE):
        if kind == "class":
            within = f"{name}::"
        elif name.startswith("test_") and len(indented) in (0, 4):
            found.add(within * bool(indented) + name)
    return found


FILES = sorted(TESTS.rglob("test_*.py"))


def test_what_is_listed_is_there() -> None:
    known = {path.relative_to(TESTS).as_posix(): functions(path) for path in TESTS.rglob("*.py")}
    inherited = {name.rpartition("::")[2] for names in known.values() for name in names}
    gone = []
    for name in slow_tests():
        file, _, test = name.partition("::")
        within, _, function = test.rpartition("::")
        if file not in known or (test not in known[file] and not (within and function in inherited)):
            gone.append(name)
    assert not gone, f"strike out of {LIST.name}, these tests are no more: {gone}"


def test_something_of_every_file_is_quick() -> None:
    slow = slow_tests()
    wholly = set()
    for path in FILES:
        file = path.relative_to(TESTS).as_posix()
        names = {f"{file}::{test}" for test in functions(path)}
        if names and names <= slow and "Contract" not in path.read_text("utf-8"):
            wholly.add(file)
    assert wholly == set(WHOLLY_SLOW), (
        f"give these files a test that takes less than a second, or say in WHOLLY_SLOW what they wait for: "
        f"{sorted(wholly - set(WHOLLY_SLOW))}; strike out of it: {sorted(set(WHOLLY_SLOW) - wholly)}"
    )


def test_listed_tests_are_marked(request: pytest.FixtureRequest) -> None:
    slow = slow_tests()
    for item in request.session.items:
        assert (item.get_closest_marker("slow") is not None) == (name_of(item.nodeid) in slow), item.nodeid


def test_continuous_integration_leaves_nothing_out() -> None:
    """Neither by its own command, nor by the README's, which it takes, nor by pytest's settings."""
    whole = re.findall(r"^pip install .*&& (pytest.*)$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(whole) == 1
    commands = whole + re.findall(r"^addopts = .*$", (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    script = ROOT / ".ci" / "run"
    if script.exists():  # a source distribution hasn't it
        lines = script.read_text("utf-8").splitlines()
        assert any("test_command=" in line and "README.md" in line for line in lines), "it takes the README's command"
        commands += [line for line in lines if re.search(r"(^|&& |-m |start \S+ (.* )?)pytest ", line)]
        examples = 'env HYPOTHESIS_PROFILE=explore nice pytest -m hypothesis --hypothesis-seed="$seed"'
        chosen = [
            "start ray pytest -m release tests/distributed",  # what the README's command leaves out
            f"start other-examples {examples} \\",  # what draws its examples, once more
            "pytest -n 2 --dist loadfile --no-loadscope-reorder -m release --ignore tests/distributed",
        ]
        assert [line for line in commands if re.search(r"pytest .*-m ", line)] == chosen
        commands = [line for line in commands if line not in chosen]
    for command in commands:
        assert not re.search(r" (-m|-k|--deselect|--ignore)\b|slow", command), command


@pytest.fixture
def tool() -> ModuleType:
    place = ROOT / "tools" / "list_slow_tests.py"
    if not place.exists():
        pytest.skip("no tools beside these tests")
    spec = importlib.util.spec_from_file_location("list_slow_tests", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_quickest_are_taken_and_one_of_every_file(tool: ModuleType, tmp_path: Path) -> None:
    irli = "contract/test_irli.py::TestIRLI::test_e"
    case = '<testcase classname="tests.{}" name="{}" time="{}"/>'
    rows = [
        ("test_parallel", "test_a[1]", 1), ("test_parallel", "test_a[2]", 1), ("test_parallel", "test_b", 0.1),
        ("cli.test_demo", "test_c", 2.5), ("cli.test_demo", "test_d", 2.9),
        ("contract.test_irli.TestIRLI", "test_e", 9),
        ("elsewhere.test_x", "test_f", 1),
    ]  # fmt: skip
    path = tmp_path / "times.xml"
    path.write_text("<testsuites>" + "".join(case.format(*row) for row in rows) + "</testsuites>")
    seconds = tool.times(path)
    assert seconds == {
        "test_parallel.py::test_a": 2, "test_parallel.py::test_b": 0.1, "cli/test_demo.py::test_c": 2.5,
        "cli/test_demo.py::test_d": 2.9, irli: 9,
    }  # fmt: skip
    assert tool.slow(seconds, budget=2.2, one=3) == ["cli/test_demo.py::test_d", irli]
    assert tool.slow(seconds, budget=0.5, one=0) == sorted(seconds.keys() - {"test_parallel.py::test_b"})
