"""The site: ``sphinx-build -W --keep-going -n docs build/site``. Needs the extra ``docs``, and what the package's own
optional parts need, whose docstrings become the reference."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[1]
shutil.rmtree(ROOT / "docs" / "reference" / "generated", ignore_errors=True)  # of names that may be gone
sys.path.insert(0, str(ROOT / "tools"))

import public_names  # noqa: E402  # of tools/

import sylvan  # noqa: E402

project = "Sylvan"
author = "The Sylvan contributors"
project_copyright = "The Sylvan contributors"
release = version = sylvan.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_templates", "figures"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_context = {"public": public_names.by_module()}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give types in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_math_renderer = "mathml"  # what browsers show by themselves, offline too
html_theme = "furo"
html_title = f"Sylvan {release}"
html_static_path = ["_static"]
html_css_files = ["sylvan.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

PAGES_OF_THE_ROOT = {
    "project/changelog": "CHANGELOG.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/security": "SECURITY.md",
    "project/code-of-conduct": "CODE_OF_CONDUCT.md",
}

# What isn't in the reference: other projects' names, as their documentation can't be asked offline, and parts of the
# package that aren't public.
nitpick_ignore_regex = [
    ("py:.*", r"(?!sylvan\.).*"),
    ("py:.*", r"sylvan\.(arrays|models|ranking|runtime|store)\b.*"),
]
suppress_warnings = ["ref.footnote"]  # lists of references that no sentence points to


def _names_are_no_links(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """``n_labels_`` in the words of a type is a name; reStructuredText takes the underscore for a link's."""
    for at, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [re.sub(r"(?<![\w`:])([A-Za-z]\w*)_(?=[\s,.;:)\]]|$)", r"\1\\_", part) for part in parts[::2]]
        lines[at] = "``".join(parts)


def _words_are_no_links(app: Any, doctree: nodes.document) -> None:
    """Of the words of a type, only those may be links that begin like a class."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if isinstance(link[0], addnodes.literal_emphasis) and not link["reftarget"].rpartition(".")[2][:1].isupper():
            link.replace_self(link[0])


def _types_are_words(app: Any, env: Any, node: nodes.Element, contnode: nodes.Node) -> nodes.Node | None:
    """A type that no page has is text; where somebody wrote a role, it is an error."""
    return None if isinstance(contnode, nodes.literal) else contnode


def _inline_mathml(self: Any, node: nodes.Element) -> None:
    self.body.append(tex2mathml(node.astext().replace(r"\dots", r"\ldots")))
    raise nodes.SkipNode


def _block_mathml(self: Any, node: nodes.Element) -> None:
    self.body.append(tex2mathml(node.astext().replace(r"\dots", r"\ldots"), as_block=True))
    raise nodes.SkipNode


def _page_of_the_root(app: Any, docname: str, source: list[str]) -> None:
    """Documents of the repository's root are pages of the site, their links as seen from docs/project/."""
    if docname in PAGES_OF_THE_ROOT:
        text = (ROOT / PAGES_OF_THE_ROOT[docname]).read_text("utf-8").replace("](docs/", "](../")
        for page, file in PAGES_OF_THE_ROOT.items():
            text = text.replace(f"]({file}", f"]({Path(page).name}.md")
        source[0] = text


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(_inline_mathml, None), block_renderers=(_block_mathml, None))
    app.connect("autodoc-process-docstring", _names_are_no_links, priority=900)  # after napoleon
    app.connect("doctree-read", _words_are_no_links)
    app.connect("missing-reference", _types_are_words, priority=900)
    app.connect("source-read", _page_of_the_root)
