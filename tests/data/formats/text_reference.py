"""load_xmc and load_svmlight, slow and obvious: regular expressions, fractions, one line after the other."""

import re
from fractions import Fraction

import numpy as np

MAX_ID = 2**31 - 2
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
ID = re.compile(r"\d+", re.ASCII)


class ReadingError(Exception):
    """The sentence that the fast reader must raise, less the file's name."""


def rows_in_words(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def quote(text: bytes) -> str:
    short, rest = text[:60], "…" if len(text) > 60 else ""
    try:
        return repr(short.decode("utf-8") + rest)
    except UnicodeDecodeError:
        return "'" + repr(short)[2:-1] + rest + "'"


def to_float(text: str) -> float | str:
    """The nearest float32, ties to even; "bad" for no number, "inf" for no finite one."""
    if NOT_FINITE.fullmatch(text):
        return "inf"
    if not NUMBER.fullmatch(text):
        return "bad"
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > 5000:
        digits = text.lower().partition("e")[0].strip("+-").replace(".", "").strip("0")
        tiny = int(exponent) < 0 or not digits
        return (-0.0 if text.startswith("-") else 0.0) if tiny else "inf"
    exact = Fraction(text)
    with np.errstate(over="ignore"):
        near = np.float32(float(exact)) if abs(exact) < 10**300 else np.float32(np.inf)
    if not np.isfinite(near):
        largest = Fraction(float(np.finfo(np.float32).max))
        if abs(exact) >= largest + Fraction(2) ** 103:  # half a unit in the last place above the largest
            return "inf"
        return float(np.copysign(np.float32(largest), exact))
    with np.errstate(over="ignore"):
        around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    around = [value for value in around if np.isfinite(value)]
    # A tie goes to the float whose last bit is 0.
    best = min(around, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1))
    if best == 0:
        return -0.0 if text.startswith("-") else 0.0
    return float(best)


def merge(pairs: list[tuple[int, float]], line: int, message: str) -> list[tuple[int, float]]:
    """Sorted by id; values of an id added in double precision, in their order."""
    sums: dict[int, float] = {}
    for i, value in pairs:
        sums[i] = sums[i] + value if i in sums else value
    with np.errstate(over="ignore"):
        rounded = {i: float(np.float32(value)) for i, value in sums.items()}
    if not all(np.isfinite(value) for value in rounded.values()):
        raise ReadingError(f"line {line}: {message}.")
    return sorted(rounded.items())


def read_line(text: bytes, line: int, lowest: int, highest: int, top_label: int, weighted: bool, svmlight: bool):
    """Labels and features of one line, both as merged pairs."""

    def fail(message: str, got: bytes) -> None:
        raise ReadingError(f"line {line}: {message}. Got {quote(got)} instead.")

    tokens = [token for token in re.split(rb"[ \t]+", text) if token]
    labels: list[tuple[int, float]] = []
    if text[:1] not in (b"", b" ", b"\t"):
        first = tokens[0]
        is_pair = b"," not in first and re.match(rb"\d+:", first) and not weighted
        is_query = svmlight and first.startswith(b"qid:") and len(first) > 4
        if is_pair and not svmlight:
            raise ReadingError(
                f"line {line}: the line starts with {quote(first)} where its labels should stand. A line "
                "without labels starts with a blank; labels with weights are read with weighted_labels=True "
                "(--weighted-labels)."
            )
        if not is_pair and not is_query:
            tokens.pop(0)
            for item in first.split(b","):
                name, colon, weight = item.decode("latin-1").partition(":")
                if colon and ID.fullmatch(name) and not weighted:
                    raise ReadingError(
                        f"line {line}: {quote(first)} gives labels weights, which is read with "
                        "weighted_labels=True (--weighted-labels) only."
                    )
                if not ID.fullmatch(name) or (colon and not weighted):
                    fail(f"label ids must be ints in [0, {top_label}], parted by commas", item)
                if int(name) > top_label:
                    fail(f"label ids must be in [0, {top_label}]", item)
                value = to_float(weight) if colon else 1.0
                if isinstance(value, str) or value < 0:
                    fail("a label's weight must be a finite number of at least 0", item)
                labels.append((int(name), value))
            if weighted:
                message = f"a label's weight must be a finite number of at least 0. Got {quote(first)} instead"
                labels = merge(labels, line, message)
            else:
                labels = sorted(dict(labels).items())
    features: list[tuple[int, float]] = []
    for token in tokens:
        if svmlight and token.startswith(b"qid:") and len(token) > 4:
            continue
        name, colon, number = token.decode("latin-1").partition(":")
        if not colon or not ID.fullmatch(name):
            fail("a feature must be written as id:value", token)
        if not lowest <= int(name) <= highest:
            fail(f"feature ids must be in [{lowest}, {highest}]", token)
        value = to_float(number)
        if value == "bad":
            fail("a feature's value must be a number", token)
        if value == "inf":
            fail("values must be finite float32 numbers", token)
        features.append((int(name), value))
    features = merge(features, line, "the values of a repeated feature sum to no finite float32")
    return labels, features


def split_lines(content: bytes) -> list[bytes]:
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def dense(rows: list[list[tuple[int, float]]], n: int) -> list[dict[int, float]]:
    assert all(i < n for row in rows for i, _ in row)
    return [dict(row) for row in rows]


def load_xmc(content: bytes, n_features=None, n_labels=None, weighted_labels=False):
    """X and Y as (number of columns, list of dicts)."""
    lines = split_lines(content)
    if not lines:
        raise ReadingError("the file is empty.")
    fields = lines[0].split()
    start, n_rows = 0, None
    if len(fields) == 3 and all(ID.fullmatch(field.decode("latin-1")) for field in fields):
        n_rows, d, top = map(int, fields)
        if max(d, top) > MAX_ID + 1:
            raise ReadingError(
                f"line 1: the header's numbers of features and labels must be at most {MAX_ID + 1}. "
                f"Got {quote(lines[0])} instead."
            )
        n_features = d if n_features is None else n_features
        n_labels = top if n_labels is None else n_labels
        start = 1
    elif len(fields) > 1 and not any(b":" in field for field in fields):
        raise ReadingError(
            "line 1: must be a header of three ints (rows, features, labels) or an instance with features "
            f"as id:value. Got {quote(lines[0])} instead."
        )
    highest = MAX_ID if n_features is None else n_features - 1
    top_label = MAX_ID if n_labels is None else n_labels - 1
    rows = [
        read_line(line, start + i + 1, 0, highest, top_label, weighted_labels, False)
        for i, line in enumerate(lines[start:])
    ]
    least = len(rows)
    while least and not lines[start + least - 1]:
        least -= 1
    if n_rows is None:
        n_rows = least
        if least == 0:
            raise ReadingError("the file holds no instances.")
    elif n_rows > len(rows):
        raise ReadingError(f"line 1: the header promises {rows_in_words(n_rows)}, but {len(rows)} follow.")
    elif n_rows < least:
        raise ReadingError(f"line {n_rows + 2}: the header promises {rows_in_words(n_rows)}, but {least} follow.")
    return finish(rows[:n_rows], n_features, n_labels, 0)


def load_svmlight(content: bytes, zero_based="auto", n_features=None, n_labels=None, weighted_labels=False):
    """X and Y as (number of columns, list of dicts)."""
    lowest = 1 if zero_based is False else 0
    highest = MAX_ID if n_features is None else n_features - (zero_based is True)
    top_label = MAX_ID if n_labels is None else n_labels - 1
    rows, numbers = [], []
    for i, line in enumerate(split_lines(content)):
        text = line.partition(b"#")[0]
        if text:
            rows.append(read_line(text, i + 1, lowest, highest, top_label, weighted_labels, True))
            numbers.append(i + 1)
    if not rows:
        raise ReadingError("the file holds no instances.")
    ids = [i for _, features in rows for i, _ in features]
    shift = lowest
    if zero_based == "auto":
        shift = 0 if 0 in ids else 1
        if shift == 0 and n_features is not None and max(ids) >= n_features:
            line = next(n for n, (_, f) in zip(numbers, rows, strict=True) if any(i == n_features for i, _ in f))
            raise ReadingError(
                f"line {line}: feature ids must be in [0, {n_features - 1}], as the file counts from 0 "
                f"(feature 0 occurs). Got {n_features} instead."
            )
    return finish(rows, n_features, n_labels, shift)


def finish(rows, n_features, n_labels, shift):
    x = [[(i - shift, value) for i, value in features] for _, features in rows]
    y = [labels for labels, _ in rows]
    d = 1 + max((i for row in x for i, _ in row), default=-1) if n_features is None else n_features
    top = 1 + max((i for row in y for i, _ in row), default=-1) if n_labels is None else n_labels
    return (d, dense(x, d)), (top, dense(y, top))
