"""Explanations as one HTML page that holds all it needs: no script, nothing fetched, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape as _escape

from sylvan.explain.records import Findings, Step, TreeVote
from sylvan.explain.text import example_words, number, printable, remarks, step_words, tree_words, verdict

# Light and dark from the reader's own settings. The policy forbids whatever an escaped text might still try.
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ --text: #1d2327; --soft: #5b656d; --page: #fff; --line: #d9dee2; --for: #2b7a4b; --against: #b3402f; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e4e7ea; --soft: #9aa5ae; --page: #171b1e; --line: #343b41; --for: #5fbf87; --against: #e58471; }}
}}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; margin: 2.5rem 0 .25rem; }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .25rem; }}
h3 {{ font-size: 1rem; margin: 0; }}
p {{ margin: .25rem 0 .5rem; }}
.soft, caption {{ color: var(--soft); font-size: .9rem; text-align: left; }}
ol.path {{ list-style: none; margin: 0; padding: 0; }}
ol.path > li {{ border-left: 3px solid var(--for); padding: .25rem 0 1rem .9rem; }}
ol.path > li.lost {{ border-left-color: var(--against); border-left-style: dashed; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }}
td {{ border-top: 1px solid var(--line); padding: .15rem .4rem; vertical-align: middle; }}
td.sum {{ text-align: right; width: 5rem; white-space: nowrap; }}
td.bar {{ width: 9rem; }}
td.bar span {{ display: block; height: .55rem; border-radius: 2px; min-width: 1px; background: var(--for); }}
td.bar span.against {{ background: var(--against); }}
blockquote {{ margin: .5rem 0; padding-left: .9rem; border-left: 3px solid var(--line); color: var(--soft); }}
</style>
</head>
<body>
"""


def escape(text: str) -> str:
    """Text as it may stand anywhere in the page; characters that no page may hold are replaced."""
    return _escape(printable(text), quote=True)


def page_head(title: str) -> str:
    """The beginning of a page up to its body, with its style."""
    return _HEAD.format(title=escape(title))


def as_page(explanations: Sequence[Findings]) -> str:
    """One page of all explanations, in their order."""
    title = ", ".join(result.name for result in explanations[:3])
    parts = [page_head(f"Explanation: {title}")]
    for result in explanations:
        parts.extend(_section(result))
    parts.append("</body>\n</html>\n")
    return "".join(parts)


def _section(result: Findings) -> Iterator[str]:
    yield f"<h1>{escape(result.title)}</h1>\n<p>{escape(verdict(result).capitalize())}.</p>\n"
    if result.excerpt is not None:
        yield f"<blockquote>{escape(result.excerpt)}</blockquote>\n"
    for sentence in remarks(result):
        yield f"<p>{escape(sentence)}</p>\n"
    for vote in result.trees:
        yield from _tree(vote, len(result.trees) > 1)
    if result.examples:
        yield "<h2>Nearest training rows with this label</h2>\n"
    for example in result.examples:
        yield f"<p>{escape(example_words(example))}"
        yield f"<br><span class=soft>Shared: {escape(', '.join(example.shared))}</span></p>\n"
        if example.excerpt is not None:
            yield f"<blockquote>{escape(example.excerpt)}</blockquote>\n"


def _tree(vote: TreeVote, several: bool) -> Iterator[str]:
    yield f"<h2>{f'Tree {vote.number + 1}: the' if several else 'The'} path to the label</h2>\n"
    yield f"<p>{escape(tree_words(vote))}</p>\n<ol class=path>\n"
    for step in vote.paths[0].steps:
        yield from _step(step)
    yield "</ol>\n"


def _step(step: Step) -> Iterator[str]:
    yield f"<li{'' if step.followed else ' class=lost'}>\n<h3>{step.layer + 1}. {escape(step.title)}</h3>\n"
    yield f"<p class=soft>{escape(step_words(step))}</p>\n<table>\n"
    listed = (*step.positive, *step.negative)
    widest = max([abs(step.intercept), abs(step.rest), *(abs(feature.contribution) for feature in listed)])
    for feature in listed:
        yield _row(feature.contribution, feature.name, f"{number(feature.value)} × {number(feature.weight)}", widest)
    if step.n_weighed > len(listed):
        yield _row(step.rest, f"{step.n_weighed - len(listed):,} more", "", widest)
    yield _row(step.intercept, "intercept", "", widest)
    yield "</table>\n</li>\n"


def _row(value: float, name: str, product: str, widest: float) -> str:
    share = 100 * abs(value) / widest if widest > 0 else 0.0
    side = " class=against" if value < 0 else ""
    bar = f'<span{side} style="width:{share:.1f}%"></span>'
    return (
        f"<tr><td class=sum>{value:+.4f}</td><td class=bar>{bar}</td><td>{escape(name)}</td>"
        f"<td class=soft>{escape(product)}</td></tr>\n"
    )
