"""Parts of sentences: numbers with their nouns, sizes, times, and what may have been meant by an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_PLURALS = {"index": "indices", "child": "children", "vertex": "vertices"}
_HISSING = ("s", "x", "ch", "sh")


def noun(n: float, singular: str) -> str:
    """A noun in the number that ``n`` asks for: "row" for 1, "rows" for any other."""
    if n == 1:
        return singular
    if singular in _PLURALS:
        return _PLURALS[singular]
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith(_HISSING) else f"{singular}s"


def are(n: float) -> str:
    """The verb after so many: "is" for 1, "are" for any other."""
    return "is" if n == 1 else "are"


def counted(n: int, singular: str) -> str:
    """A number and its noun."""
    return f"{n:,} {noun(n, singular)}"


# What scikit-learn calls a parameter: the name here that stands for it, and the sentence that says so.
_ELSEWHERE = {
    name: (ours, f"It is called {ours!r} here.")
    for name, ours in (
        ("random_state", "seed"), ("C", "cost"), ("ngram_range", "ngrams"), ("tol", "tolerance"),
        ("max_iter", "max_iterations"), ("n_estimators", "n_trees"),
    )
} | {
    "class_weight": ("positive_cost", "Positives are weighed by 'positive_cost', and rows by sample_weight of fit."),
    "stop_words": ("max_df", "Frequent words are left out by 'max_df', as in max_df=0.5."),
    "tokenizer": ("analyzer", "Texts are split by 'analyzer': give words of your own with blanks between them."),
}  # fmt: skip


def called_here(name: str, names: Iterable[str]) -> str | None:
    """What one of ``names`` is for which scikit-learn has the name that is given, in a sentence."""
    ours, sentence = _ELSEWHERE.get(name, ("", ""))
    return sentence if ours in names else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A question that names what is spelled most like ``name``; all that there is, where nothing is like it."""
    names = list(candidates)
    if (sentence := called_here(name, names)) is not None:
        return sentence
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known names: {', '.join(names) or 'none'}."


def shown_bytes(n_bytes: float) -> str:
    """Bytes of memory as sentences show them: ``"1.2 GB"``."""
    if n_bytes < 1e6:
        return f"{n_bytes / 1e3:.0f} kB"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def rounded_up_bytes(n_bytes: int) -> str:
    """As :func:`shown_bytes`, never less."""
    unit = next((unit for unit in (10**8, 10**5) if n_bytes >= 10 * unit), 1000)
    return shown_bytes(-(-n_bytes // unit) * unit)


def size_words(n_bytes: int) -> str:
    """Bytes on disk, small files too: ``"812 bytes"``, ``"1.2 kB"``."""
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.1f} {('', 'kB', 'MB', 'GB')[power]}" if power else f"{n_bytes} bytes"


def shown_seconds(seconds: float) -> str:
    """A time for people: ``"4.2 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def shown_time(seconds: float) -> str:
    """As :func:`shown_seconds`, for short times too: ``"0.8 ms"``."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.1 else shown_seconds(seconds)
