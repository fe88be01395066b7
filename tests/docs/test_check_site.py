"""The check of a built site finds links and anchors that lead nowhere, and what wouldn't be there offline."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
GOOD = {
    "index.html": '<link href="a.css"><img src="b/c.png"><a href="b/page.html#here">x</a><a href="https://x.org/">y</a>',
    "b/page.html": '<p id="here"><a href="../index.html">x</a><a href="#here">y</a><a href="#">top</a></p>',
    "a.css": "",
    "b/c.png": "",
}
FAULTS = {
    "a file": ('<a href="nowhere.html">x</a>', "index.html links to nowhere.html, which isn't there."),
    "outside": ('<a href="../secret.html">x</a>', "index.html links to ../secret.html, which isn't there."),
    "an anchor": ('<a href="b/page.html#there">x</a>', "links to b/page.html#there, an anchor that isn't there."),
    "an own anchor": ('<a href="#there">x</a>', "links to #there, an anchor that isn't there."),
    "a picture": ('<img src="d.png">', "index.html links to d.png, which isn't there."),
    "the web": ('<script src="https://x.org/a.js"></script>', "loads https://x.org/a.js, which isn't there offline."),
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "tools" / "check_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder / "site"


def test_a_whole_site_has_no_faults(tool: ModuleType, tmp_path: Path) -> None:
    assert list(tool.faults(write(tmp_path, GOOD))) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_sentence(tool: ModuleType, tmp_path: Path, fault: str) -> None:
    text, sentence = FAULTS[fault]
    (tmp_path / "secret.html").write_text("")
    found = list(tool.faults(write(tmp_path, GOOD | {"index.html": GOOD["index.html"] + text})))
    assert len(found) == 1
    assert sentence in found[0]


def test_an_empty_folder_is_a_fault(tool: ModuleType, tmp_path: Path) -> None:
    assert len(list(tool.faults(tmp_path))) == 1
