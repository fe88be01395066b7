#!/usr/bin/env python3
"""Does a test fail when the code is wrong? Small faults (mutants) are put into the sources one at a time, and the tests
that run the function are asked.

    tools/mutants.py map tests/ranking …     which tests run which functions: the daily tests of folders, or all
    tools/mutants.py run --n 600 --seed 0    put in so many faults, spread evenly over the folders of src/sylvan
    tools/mutants.py run --only ranking      of one folder alone
    tools/mutants.py table                   killed and survived by folder, and the survivors

Results are lines of JSON in build/mutants/; ``run`` goes on where it was stopped. The same seed chooses the same
faults while the sources are the same; ``--again FILE`` asks about those of another results file, by their line's text.
A survivor is either equivalent (no caller can see it) or a test that is missing.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES, WORK = ROOT / "src" / "sylvan", ROOT / "build" / "mutants"
MAP = WORK / "map.jsonl"
STAGES = ((30, 12.0), (90, 45.0))  # tests, and their seconds, that are asked at first; and of a survivor
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


# ---------------------------------------- which tests run which functions


class Recorder:
    """A plugin of pytest: a line for each test with its seconds and the functions that its process ran."""

    def __init__(self) -> None:
        self.stream = open(WORK / f"map-{os.getpid()}.jsonl", "w")  # noqa: SIM115
        self.names: dict[Any, str | None] = {}
        self.ran: set[str] = set()

    def _call(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in self.names:
            path = code.co_filename
            inside = "sylvan/" in path and str(SOURCES) in path
            self.names[code] = f"{os.path.relpath(path, SOURCES)}:{code.co_firstlineno}" if inside else None
        if (name := self.names[code]) is not None:
            self.ran.add(name)

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        self.ran, self.begin = set(), time.perf_counter()
        sys.settrace(self._call)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        sys.settrace(None)
        seconds = time.perf_counter() - self.begin
        self.stream.write(json.dumps({"test": nodeid, "seconds": seconds, "ran": sorted(self.ran)}) + "\n")
        self.stream.flush()


def pytest_configure(config: Any) -> None:
    """Where this file is given to pytest by ``-p``, in a process that runs tests."""
    if os.environ.get("SYLVAN_MUTANTS_MAP") and hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


def make_map(tests: list[str]) -> None:
    """Run the daily tests once, each with what it runs."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    os.environ |= {"SYLVAN_MUTANTS_MAP": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tools'}"}
    others = [f"--ignore=tests/{name}" for name in ("architecture", "docs", "hostile", "examples", "benchmarks")]
    command = [sys.executable, "-m", "pytest", "-p", "mutants", "-n", "2", "-m", "not slow", *others, *tests]
    os.spawnv(os.P_WAIT, sys.executable, command)
    with open(MAP, "w") as stream:
        for path in sorted(WORK.glob("map-*.jsonl")):
            stream.write(path.read_text())
            path.unlink()


# ---------------------------------------- faults


def changed(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in place of an expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        yield ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)


class Places(ast.NodeVisitor):
    """The expressions of a file that run within a function and are more than words, and the function of each."""

    def __init__(self) -> None:
        self.function: ast.AST | None = None
        self.places: list[tuple[ast.expr, ast.expr, int]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.function = self.function, node
        for statement in node.body:
            self.visit(statement)
        self.function = outer

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Sentences of errors are held by other tests."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words."""

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(self.function, ast.FunctionDef):
            begin = min([self.function.lineno, *(part.lineno for part in self.function.decorator_list)])
            self.places += [(node, other, begin) for other in changed(node) if isinstance(node, ast.expr)]
        super().generic_visit(node)


def faults(path: Path) -> Iterator[dict[str, Any]]:
    """Each fault of a file: where, what stands there, what would."""
    source = path.read_text()
    visitor = Places()
    visitor.visit(ast.parse(source))
    lines = source.splitlines()
    for node, other, function in visitor.places:
        yield {
            "file": str(path.relative_to(SOURCES)), "line": node.lineno, "column": node.col_offset,
            "function": function, "text": lines[node.lineno - 1].strip(),
            "before": ast.get_source_segment(source, node), "end": [node.end_lineno, node.end_col_offset],
            "after": f"({ast.unparse(ast.fix_missing_locations(other))})",
        }  # fmt: skip


def folder_of(fault: dict[str, Any]) -> str:
    return str(fault["file"]).partition("/")[0]


def sample(n: int, seed: int, only: str | None) -> list[dict[str, Any]]:
    """``n`` faults, as many of each folder as of any other where it has as many."""
    of_folder: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for fault in faults(path):
            of_folder[folder_of(fault)].append(fault)
    chooser = random.Random(seed)
    for all_of_it in of_folder.values():
        chooser.shuffle(all_of_it)
    if only:
        return of_folder[only][:n]
    turns = [fault for turn in zip_all(list(of_folder.values())) for fault in turn]
    return turns[:n]


def zip_all(lists: list[list[Any]]) -> Iterator[list[Any]]:
    for turn in range(max(map(len, lists))):
        yield [each[turn] for each in lists if turn < len(each)]


def found_again(file: Path) -> list[dict[str, Any]]:
    """The faults of another results file in today's sources, by the text of their lines."""
    today = {
        (fault["file"], fault["text"], fault["before"], fault["after"]): fault
        for path in sorted(SOURCES.rglob("*.py"))
        for fault in faults(path)
    }
    wanted = [json.loads(line) for line in file.read_text().splitlines()]
    keys = [(fault["file"], fault["text"], fault["before"], fault["after"]) for fault in wanted]
    return [today[key] for key in keys if key in today]


# ---------------------------------------- asking the tests


def put_in(fault: dict[str, Any], sources: Path) -> None:
    """Write the file with the fault into a copy of the sources."""
    lines = (SOURCES / fault["file"]).read_bytes().splitlines(keepends=True)
    (first, column), (last, end) = (fault["line"] - 1, fault["column"]), (fault["end"][0] - 1, fault["end"][1])
    new = lines[first][:column] + fault["after"].encode() + lines[last][end:]
    (sources / fault["file"]).write_bytes(b"".join([*lines[:first], new, *lines[last + 1 :]]))


def ask(tests: list[str], sources: Path, seconds: float) -> str:
    """Whether these tests pass over other sources: survived, killed, or killed by time."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        sys.path.insert(0, str(sources.parent))
        os.environ["PYTHONPATH"] = str(sources.parent)
        import pytest

        plain = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
        os._exit(int(pytest.main([*plain, *tests])))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", 4: "not asked", 5: "not asked"}.get(code, "killed")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed by time"


def chosen(running: list[tuple[float, str]], n: int, seconds: float, without: set[str]) -> list[str]:
    """The quickest tests of a function, of each file in turn."""
    of_file: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for pair in sorted(running):
        if pair[1] not in without:
            of_file[pair[1].partition("::")[0]].append(pair)
    tests, total = [], 0.0
    for turn in zip_all(list(of_file.values())) if of_file else ():
        for cost, test in sorted(turn):
            if len(tests) < n and total + cost <= seconds:
                tests.append(test)
                total += cost
    return tests


def run(faults_asked: list[dict[str, Any]], results: Path) -> None:
    """Ask about each fault that ``results`` lacks."""
    running: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for line in MAP.read_text().splitlines():
        record = json.loads(line)
        for function in record["ran"]:
            running[function].append((record["seconds"], record["test"]))
    before = results.read_text().splitlines() if results.exists() else []
    known = {json.dumps(json.loads(line)["key"]) for line in before}
    copy = WORK / f"work-{os.getpid()}" / "sylvan"
    shutil.copytree(SOURCES, copy)
    os.chdir(ROOT)
    import hypothesis  # noqa: F401
    import pytest  # noqa: F401
    import scipy.sparse  # noqa: F401
    import torch  # noqa: F401  # what every child would import again

    try:
        for count, fault in enumerate(faults_asked):
            fault["key"] = [fault[name] for name in ("file", "line", "column", "after")]
            if json.dumps(fault["key"]) in known:
                continue
            put_in(fault, copy)
            of_function, asked, state = running[f"{fault['file']}:{fault['function']}"], set(), "no test"
            for n, seconds in STAGES:
                tests = chosen(of_function, n, seconds, asked)
                if not tests:
                    break
                state = ask(tests, copy, 30 + 10 * seconds)
                asked |= set(tests)
                if state != "survived":
                    break
            shutil.copyfile(SOURCES / fault["file"], copy / fault["file"])
            with open(results, "a") as stream:
                stream.write(json.dumps({**fault, "state": state, "n_tests": len(asked)}) + "\n")
            print(f"{count + 1}/{len(faults_asked)} {state}: {fault['file']}:{fault['line']}", file=sys.stderr)
    finally:
        shutil.rmtree(copy.parent)


def table(results: Path) -> None:
    """Killed and survived by folder, and each survivor."""
    records = [json.loads(line) for line in results.read_text().splitlines()]
    states = {folder: Counter() for folder in sorted(map(folder_of, records))}  # type: dict[str, Counter[str]]
    for record in records:
        states[folder_of(record)][record["state"]] += 1
    for folder, counts in states.items():
        killed = counts["killed"] + counts["killed by time"]
        print(f"{folder:14} {killed:4} of {counts.total():4} killed; {dict(counts)}")
    for record in sorted(records, key=lambda record: (record["file"], record["line"])):
        if not record["state"].startswith("killed"):
            where = f"{record['file']}:{record['line']}"
            print(f"{record['state']}: {where}: {record['before']!s:.80} -> {record['after']:.80}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["map", "run", "table"])
    parser.add_argument("tests", nargs="*", help="folders of tests, for map")
    parser.add_argument("--n", type=int, default=600, help="how many faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a folder of src/sylvan")
    parser.add_argument("--again", type=Path, help="ask about the faults of this results file")
    parser.add_argument("--results", type=Path, default=WORK / "results.jsonl")
    options = parser.parse_args()
    if options.what == "map":
        make_map(options.tests)
    elif options.what == "run":
        chosen_faults = found_again(options.again) if options.again else sample(options.n, options.seed, options.only)
        run(chosen_faults, options.results)
    else:
        table(options.results)


if __name__ == "__main__":
    main()
