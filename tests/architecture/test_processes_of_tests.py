"""No test starts a process by itself, waits for less than a busy machine may need, or asserts how long it has taken."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from house import collected_later
from waiting import PATIENCE

TESTS = Path(__file__).parents[1]
FILES = sorted(path for path in TESTS.rglob("*.py") if "__pycache__" not in path.parts)
STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "startfile", "execv", "execve"}
    | {"spawn" + kind for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")},
    "pty": {"fork", "spawn"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "multiprocessing": {"Process", "Pool", "Manager", "get_context"},
    "concurrent.futures": {"ProcessPoolExecutor"},
    "futures": {"ProcessPoolExecutor"},
}
# Where processes are started nevertheless: by file and function, and why each ends with its test.
ALLOWED = {
    "child_processes.py::start": "the one place",
    "child_processes.py::guard": "what ends the others",
    "child_processes.py::forked": "the one place",
    "contract/suite.py::": "says once what a server of multiprocessing loads",
    "contract/suite.py::answer_of_child": "a model is handed over by multiprocessing; the child is killed in the end",
    "docs/command_server.py::serve": "a child itself, in whose group the forks are",
    "docs/command_server.py::_answer": "a child itself, in whose group the forks are",
    "neural/loop/forked_processes.py::_started": "for programs that are children themselves; each is waited for",
}
# Calls that wait, and the place of the time limit among their arguments, if it has one.
WAITS = {
    "communicate": 1, "exit_code": 0, "join": 0, "poll": 0, "wait": 0, "wait_for": 1, "create_connection": 1,
    "HTTPConnection": None, "connect": None, "get": None, "python": None, "raw": None, "run": None, "start": None,
    "talk": None, "until": None, "urlopen": None,
}  # fmt: skip
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time"}


def name_of(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


@cache
@collected_later()
def all_nodes() -> list[tuple[Path, Any, str]]:
    """Those of all files."""
    return [(path, node, function) for path in FILES for node, function in nodes_of(path)]


def nodes_of(path: Path) -> list[tuple[Any, str]]:
    """The parts of a file that may be of interest, each with the name of the function that it stands in.

    Generic types (``subprocess.Popen[bytes]``) aren't: they start nothing.
    """
    found: list[tuple[Any, str]] = []
    left: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text("utf-8")), "")]
    while left:
        node, function = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        elif isinstance(node, (ast.Attribute, ast.Call, ast.BinOp, ast.Assert, ast.ImportFrom)):
            found.append((node, function))
        generic = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
        left += [(child, function) for child in ast.iter_child_nodes(node) if not (generic and child is node.value)]  # type: ignore[attr-defined]
    return found


def dotted(node: ast.AST) -> str:
    """``a.b.c`` for an attribute or a name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        above = dotted(node.value)
        return f"{above}.{node.attr}" if above else ""
    return node.id if isinstance(node, ast.Name) else ""


def starts(node: ast.AST) -> str | None:
    """What starts a process here: an attribute of a module, or a name that is imported from one."""
    if isinstance(node, ast.Attribute):
        module = dotted(node.value)
        return f"{module}.{node.attr}" if node.attr in STARTERS.get(module, ()) else None
    if isinstance(node, ast.ImportFrom):
        found = [alias.name for alias in node.names if alias.name in STARTERS.get(node.module or "", ())]
        return f"{node.module}.{found[0]}" if found else None
    return None


def number(node: ast.expr | None) -> float | None:
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) else None


def short_wait(node: ast.AST) -> float | None:
    """The time limit of a call that waits, or of a loop by the clock, if a busy machine may need more than that."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and is_clock(node.left):
        value = number(node.right)
        return value if value is not None and value < PATIENCE else None
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in WAITS:
        return None
    place = WAITS[name]
    given: list[ast.expr | None] = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
    if place is not None and len(node.args) > place:
        given.append(node.args[place])
    found = [value for value in map(number, given) if value is not None and 0 < value < PATIENCE]
    return found[0] if found else None


def is_clock(node: ast.AST) -> bool:
    """Whether this reads the clock; a processor's time isn't the clock's."""
    return isinstance(node, ast.Call) and dotted(node.func) in CLOCKS


def is_in_time(node: ast.AST) -> bool:
    """Whether it is asserted that not more than some time has gone by."""
    for compare in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
        if isinstance(compare, ast.Compare):
            sides = [compare.left, *compare.comparators]
            for at, operator in enumerate(compare.ops):
                if isinstance(operator, (ast.Lt, ast.LtE)) and is_since(sides[at]):
                    return True
                if isinstance(operator, (ast.Gt, ast.GtE)) and is_since(sides[at + 1]):
                    return True
    return False


def is_since(node: ast.AST) -> bool:
    """Whether this is the time since something, by the clock."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and is_clock(node.left)


def test_processes_are_started_in_one_place() -> None:
    places = {(name_of(path), function): node for path, node, function in all_nodes() if starts(node)}
    for (name, function), node in places.items():
        assert f"{name}::{function}" in ALLOWED, (
            f"{name}, line {node.lineno} uses {starts(node)}, and what it starts may outlive its test. Use run(), "
            "python(), start() or forked() of tests/child_processes.py, which take the same options and see to the end "
            "of it, or say in ALLOWED of this test why it ends."
        )
    gone = set(ALLOWED) - {f"{name}::{function}" for name, function in places}
    assert not gone, f"strike out of ALLOWED, these start no process any more: {gone}"


def test_nothing_waits_by_the_clock_for_less_than_a_busy_machine_needs() -> None:
    for path, node, _ in all_nodes():
        where = f"{name_of(path)}, line {node.lineno}"
        found = short_wait(node)
        assert found is None, (
            f"{where} waits for {found:g} seconds at most, which a busy machine may need for anything: say PATIENCE of "
            "tests/waiting.py, however soon it comes on an idle one."
        )
        assert not is_in_time(node), (
            f"{where} asserts that not more than some time has gone by, which says how busy the machine is: compare "
            "used_seconds() of tests/waiting.py (time of a processor), or wait by until() for what has to come."
        )
        assert dotted(node) != "pytest.mark.timeout", (
            f"{where} sets a time limit of its own: that of pyproject.toml is for all tests."
        )


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("subprocess.run(['a'])", "subprocess.run"), ("os.fork()", "os.fork"), ("subprocess.PIPE", None),
        ("from subprocess import PIPE, Popen", "subprocess.Popen"), ("process.run()", None),
        ("from multiprocessing import Pool", "multiprocessing.Pool"), ("os.getpid()", None),
    ],
)  # fmt: skip
def test_what_starts_a_process_is_seen(code: str, answer: str | None) -> None:
    assert [found for node in ast.walk(ast.parse(code)) if (found := starts(node))] == ([answer] if answer else [])


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("process.wait(10)", True), ("process.communicate(timeout=30)", True), ("process.wait(PATIENCE)", False),
        ("thread.join()", False), ("', '.join(words)", False), ("queue.get(timeout=2.5)", True),
        ("last = time.monotonic() + 20", True), ("last = time.monotonic() + PATIENCE", False),
        ("assert time.monotonic() - began < 5", True), ("assert time.monotonic() - began > 5", False),
        ("assert 1 < time.perf_counter() - start < 20", True), ("assert used_seconds(pid) < 3", False),
        ("assert time.process_time() - start < 20", False),
        ("assert n <= 6 + time.monotonic() - began", False), ("assert 5 > time.time() - start", True),
    ],
)  # fmt: skip
def test_what_depends_on_the_machine_s_speed_is_seen(code: str, answer: bool) -> None:
    nodes = list(ast.walk(ast.parse(code)))
    assert any(short_wait(node) or is_in_time(node) for node in nodes) is answer
