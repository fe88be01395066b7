#!/usr/bin/env python
"""Draw what ``sylvan demo`` prints as a terminal: tools/demo_picture.py [FILE.svg].

FILE is docs/figures/demo.svg by default. The package has to be importable (PYTHONPATH=src in a working tree).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

import sylvan

FILE = Path(__file__).parents[1] / "docs" / "figures" / "demo.svg"
WIDTH, LINES = 104, 25  # characters and lines of the terminal
LINE, CHARACTER, MARGIN, BAR = 19, 7.83, 16, 30  # pixels
BACKGROUND, PLAIN, COMMAND, COMMENT = "#16181d", "#d8dee9", "#a3d9a5", "#8fa1b3"


def printed() -> list[str]:
    """The first lines of a demo in an empty folder, with its measures and some of its examples."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sylvan", "demo"]
        environment = {**os.environ, "PYTHONPATH": str(Path(sylvan.__file__).parents[1])}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.rstrip("\n").split("\n")
    return [line[:WIDTH].rstrip() for line in lines[:LINES]]


def picture(command: str, lines: list[str]) -> str:
    """An SVG of a terminal with a command and its lines."""
    while lines and not lines[-1]:
        lines = lines[:-1]
    wide = round(2 * MARGIN + WIDTH * CHARACTER)
    high = BAR + MARGIN + LINE * (len(lines) + 1) + MARGIN // 2
    return "\n".join(_elements(command, lines, wide, high)) + "\n"


def _elements(command: str, lines: list[str], wide: int, high: int) -> Iterator[str]:
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<title>{escape(command)}</title>"
    yield f'<rect width="{wide}" height="{high}" rx="8" fill="{BACKGROUND}"/>'
    for at, color in enumerate(("#e06c75", "#e5c07b", "#98c379")):
        yield f'<circle cx="{MARGIN + 6 + 18 * at}" cy="{BAR // 2 + 2}" r="5.5" fill="{color}"/>'
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    yield f'<g font-family="{font}" font-size="13" fill="{PLAIN}">'
    for at, line in enumerate([f"$ {command}", *lines]):
        color = COMMAND if at == 0 else COMMENT if line.startswith("  ") else PLAIN
        # The length holds the columns together whatever font there is.
        length = f'textLength="{len(line) * CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"' if line else ""
        text = escape(line).replace(" ", "\N{NO-BREAK SPACE}")  # several blanks would become one
        yield f'<text x="{MARGIN}" y="{BAR + MARGIN + LINE * at}" fill="{color}" {length}>{text}</text>'
    yield "</g></svg>"


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        sys.exit("Usage: tools/demo_picture.py [FILE.svg]")
    target = Path(sys.argv[1]) if len(sys.argv) == 2 else FILE
    target.write_text(picture("sylvan demo", printed()), "utf-8")
