"""Public reports about libraries of this kind, repeated: the situation of each, and the right value or the refusal.

docs/project/field-reports.md lists them with their numbers and verdicts.
"""

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import IRLIIndex, TextModel, TfidfVectorizer, TopK, XRLinear, data, load, metrics
from sylvan.cli import main
from sylvan.errors import DataError, SylvanError

TEXTS = ["sea whale harpoon", "bread oven flour", "loan bank money"] * 20
NAMES = [["sea"], ["baking"], ["bank"]] * 20
VECTORS = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
PAGE = Path(__file__).parents[2] / "docs" / "project" / "field-reports.md"

Situation = Callable[[], Any]
RIGHT: dict[str, tuple[Situation, Any]] = {}
REFUSED: dict[str, tuple[Situation, str]] = {}


def right(report: str, value: Any) -> Callable[[Situation], Situation]:
    """Enter a situation with the value that it has to have."""

    def enter(situation: Situation) -> Situation:
        RIGHT[report] = situation, value
        return situation

    return enter


def refused(report: str, sentence: str) -> Callable[[Situation], Situation]:
    """Enter a situation that has to end in an error of Sylvan's whose sentence has these words."""

    def enter(situation: Situation) -> Situation:
        REFUSED[report] = situation, sentence
        return situation

    return enter


class CommandRefused(SylvanError):
    """A command ended with an exit code of its own."""


def command(words: str) -> None:
    if main(words.split()):
        raise CommandRefused(words)


def answers(path: str) -> list[list[str]]:
    return [json.loads(line)["labels"] for line in Path(path).read_text("utf-8").splitlines()]


def model() -> TextModel:
    return TextModel().fit(TEXTS, NAMES)


# ---------------------------------------- texts and words


@right("NatLibFi/Annif#456", [["UK"], ["US"]])
def words_of_two_letters() -> Any:
    texts = ["uk politics", "us politics", "uk economy", "us economy"] * 10
    return TextModel().fit(texts, [["UK"], ["US"]] * 20).rank(["UK", "the US trade"], k=1).names


@right("scikit-learn/scikit-learn#10756", [["rain"], ["clouds"]])
def chinese_words_of_one_character() -> Any:
    fitted = TextModel().fit(["今天 是 个 阴天", "这 会 下 雨"] * 20, [["clouds"], ["rain"]] * 20)
    return fitted.rank(["雨", "个"], k=1).names


@right("facebookresearch/fastText#1079", [["sea"], True])
def a_text_with_line_breaks() -> Any:
    found = model().rank(["sea\nwhale", "sea whale", "sea\r\n\twhale"], k=1)
    return [found.names[0], bool((found.scores == found.scores[0]).all())]


@right("scikit-learn/scikit-learn#14962", [["stat.ML"], ["cs.LG"]])
def one_label_a_row_as_a_string() -> Any:
    return TextModel().fit(TEXTS, ["stat.ML", "cs.LG", "cs.CV"] * 20).rank(["sea", "bread"], k=1).names


# ---------------------------------------- files


@right("NatLibFi/Annif#309", [["sea"]])
def a_folder_of_texts_with_names_of_subjects() -> Any:
    Path("keys").mkdir()
    for number, (text, names) in enumerate(zip(TEXTS, NAMES, strict=True)):
        Path(f"keys/{number}.txt").write_text(text, "utf-8")
        Path(f"keys/{number}.key").write_text(f"{names[0]}\n", "utf-8")
    command("train xr-linear keys --model m")
    return load("m").rank(["a whale at sea"], k=1).names


@refused("NatLibFi/Annif#351", "empty")
def evaluation_over_an_empty_file() -> Any:
    model().save("m")
    Path("empty.jsonl").write_text("", "utf-8")
    command("evaluate m empty.jsonl")


@right("facebookresearch/fastText#359", 229)
def labels_that_occur_once() -> Any:
    lines = [f"__label__l{number} word{number} text\n" for number in range(229)]
    Path("rare.txt").write_text("".join(lines), "utf-8")
    command("train xr-linear rare.txt --model m")
    return load("m").n_labels_


@refused("facebookresearch/fastText#728", "holds no labels")
def two_prefixes_of_labels_in_a_line() -> Any:
    Path("two.txt").write_text("__labelA__x __labelB__y one text\n__labelA__z __labelB__y other\n" * 5, "utf-8")
    command("train xr-linear two.txt --model m")


@refused("facebookresearch/fastText#71", "no column 'text'")
def lines_without_the_prefix_of_labels() -> Any:
    Path("tabs.txt").write_text("1\twallet\tGive more sales\n2\tpurse\tOld clients\n", "utf-8")
    command("train xr-linear tabs.txt --model m")


@right("facebookresearch/fastText#435", True)
def a_last_line_without_its_end() -> Any:
    model().save("m")
    for name, content in (("without", "sea whale\nbread"), ("with", "sea whale\nbread\n")):
        Path(f"{name}.txt").write_text(content, "utf-8")
        command(f"predict m {name}.txt --format lines -k 2 -o {name}.jsonl")
    return Path("with.jsonl").read_bytes() == Path("without.jsonl").read_bytes()


@right("facebookresearch/fastText#344", 5)
def as_many_answers_as_lines() -> Any:
    model().save("m")
    texts = ["sea\u2028whale", "bread\x0coven", "\x1csea", "loan\x85bank", "bread"]
    Path("odd.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    command("predict m odd.jsonl -k 1 -o odd.out.jsonl")
    return len(answers("odd.out.jsonl"))


@refused("scikit-learn/scikit-learn#6350", "parted by commas")
def blanks_between_labels_of_svmlight() -> Any:
    Path("blanks.svm").write_text("1, 2, 3 1:1 2:1\n2 2:1\n1 1:1\n", "utf-8")
    command("train xr-linear blanks.svm --model m")


@right("tomtung/omikuji#53", [(12, 2), [2, 0, 1]])
def rows_of_svmlight_without_labels() -> Any:
    Path("some.svm").write_text("1,2 1:1 2:1\n 2:1\n1 1:1\n" * 4, "utf-8")
    X, Y, *_ = data.load_svmlight("some.svm")
    return [X.shape, np.diff(Y.indptr).tolist()[:3]]


@refused("scikit-learn/scikit-learn#34661", "Reshape your data")
def one_dimension_of_labels_for_svmlight() -> Any:
    data.save_svmlight("one.svm", sp.csr_matrix(VECTORS), np.arange(20))


# ---------------------------------------- measures


@right("scikit-learn/scikit-learn#10410", {1: 0.5})
def true_labels_that_training_had_not() -> Any:
    return metrics.precision([["sea"], ["new"]], model().rank(["sea", "bread"], k=1), at=(1,))


@right("karlhigley/ranking-metrics-torch#1", True)
def a_measure_at_one_depth_and_at_two() -> Any:
    truth = sp.csr_matrix(np.array([[1, 0, 0, 1, 1]], np.float32))
    scores = sp.csr_matrix(np.array([[0.1, 0.2, 0.3, 4, 70]], np.float32))
    alone, both = (metrics.ndcg(truth, scores, at=depths)[3] for depths in ((3,), (3, 5)))
    return alone == both == pytest.approx((1 + 1 / math.log2(3)) / (1 + 1 / math.log2(3) + 0.5))


@right("scikit-learn/scikit-learn#21335", {1: 1.0, 3: 1.0})
def one_label_alone() -> Any:
    return metrics.ndcg([[0]], TopK(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32)), at=(1, 3))


@right("elixir-nx/scholar#360", {1: 0.0})
def equal_scores_are_not_turned_to_the_best() -> Any:
    truth = sp.csr_matrix(np.array([[0, 0, 0, 1]], np.float32))
    return metrics.ndcg(truth, sp.csr_matrix(np.ones((1, 4), np.float32)), at=(1,))


# ---------------------------------------- vectors


@right("facebookresearch/faiss#1780", [True, True])
def more_neighbours_than_vectors() -> Any:
    numbers, distances = IRLIIndex().fit(VECTORS).search(VECTORS, k=30)
    return [bool((numbers[:, 20:] == -1).all()), bool((np.isinf(distances) == (numbers == -1)).all())]


@right("facebookresearch/faiss#915", True)
def rounding_at_the_end_of_a_range() -> Any:
    return bool((IRLIIndex(metric="angular").fit(VECTORS * 1000).search(VECTORS, k=3)[1] >= 0).all())


@refused("nmslib/nmslib#321", "only zeros in row 0")
def a_query_of_zeros() -> Any:
    IRLIIndex(metric="angular").fit(VECTORS).search(np.zeros((1, 8), np.float32), k=3)


@refused("nmslib/hnswlib#93", "two dimensions")
def one_vector_as_a_query() -> Any:
    IRLIIndex().fit(VECTORS).search(VECTORS[0], k=2)


@right("nmslib/hnswlib#244", [5, True])
def fewer_vectors_than_asked_after_a_removal() -> Any:
    index = IRLIIndex().fit(VECTORS)
    index.remove(np.arange(15))
    numbers = index.search(VECTORS, k=10)[0]
    return [int((numbers >= 0).sum(axis=1).max()), bool(((numbers == -1) | (numbers >= 15)).all())]


@right("nmslib/hnswlib#444", [["bank", "sea"], 2])
def a_filter_that_leaves_fewer_than_asked() -> Any:
    found = model().rank(["loan"], k=3, allowed=["sea", "bank"])
    return [[name for name in found.names[0] if name is not None], int((found.labels >= 0).sum())]


# ---------------------------------------- folders of models


@refused("huggingface/huggingface_hub#3371", "is missing: the manifest names it")
def a_folder_of_which_a_file_is_missing() -> Any:
    XRLinear().fit(np.tile(VECTORS, (3, 1)), np.arange(60) % 3).save("m")
    next(Path("m").glob("*.values.*")).unlink()
    load("m").rank(VECTORS, k=1)


@refused("huggingface/huggingface_hub#1388", "'m/manifest.json' cannot be read")
def a_folder_of_links_to_nowhere() -> Any:
    model().save("whole")
    Path("m").mkdir()
    for file in Path("whole").rglob("*"):
        if file.is_file():
            (Path("m") / file.relative_to("whole")).parent.mkdir(parents=True, exist_ok=True)
            (Path("m") / file.relative_to("whole")).symlink_to(f"whole/{file.relative_to('whole')}")
    shutil.rmtree("whole")
    load("m").rank(["sea"], k=1)


@pytest.mark.parametrize("report", RIGHT)
def test_the_right_value(report: str) -> None:
    situation, value = RIGHT[report]
    assert situation() == value


@pytest.mark.parametrize("report", REFUSED)
def test_refused_in_a_sentence(report: str, capsys: pytest.CaptureFixture[str]) -> None:
    situation, sentence = REFUSED[report]
    with pytest.raises(SylvanError) as raised:
        situation()
    said = capsys.readouterr().err if isinstance(raised.value, CommandRefused) else str(raised.value)
    assert sentence in said and "Traceback" not in said and "went wrong inside" not in said


class Targets(NamedTuple):
    """Targets of a loss, the value to be ignored, and the sentence of the refusal; None where it has to be finite."""

    targets: list[int]
    ignored: int
    sentence: str | None


TARGETS = {
    "pytorch/pytorch#70348": Targets([-100, -100, -100], -100, None),
    "pytorch/pytorch#12670": Targets([1, 2, -4], -1, "-4"),
    "pytorch/pytorch#15508": Targets([1, 255, 2], 255, None),
}


@pytest.mark.parametrize("report", TARGETS)
def test_targets(report: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra 'neural'")
    from sylvan.sampling import FullSoftmaxLoss

    given = TARGETS[report]
    generator = torch.Generator().manual_seed(0)
    queries, table = torch.randn(3, 4, generator=generator), torch.randn(10, 4, generator=generator)
    loss = FullSoftmaxLoss(ignore_index=given.ignored)
    if given.sentence is not None:
        with raises(DataError, given.sentence):
            loss(queries, table, torch.tensor(given.targets))
        return
    kept = torch.tensor(given.targets) != given.ignored
    expected = 0.0
    if kept.any():
        expected = float(
            torch.nn.functional.cross_entropy((queries @ table.T)[kept], torch.tensor(given.targets)[kept])
        )
    assert float(loss(queries, table, torch.tensor(given.targets))) == pytest.approx(expected, rel=1e-5)


REQUESTS = {  # the bodies of requests to rank texts, and the status of what they get
    "fastapi/fastapi#914": [b"[]", b"null", b'"text"'],
    "fastapi/fastapi#3417": [b'{"text": "sea", "k": NaN}', b'{"text": NaN}'],
    "Kludex/uvicorn#1657": [b"", b" ", b"{"],
}


@pytest.mark.parametrize("report", REQUESTS)
def test_requests(report: str) -> None:
    pytest.importorskip("starlette", reason="needs the extra 'serve'")
    from serve.asgi import running

    from sylvan import serve

    model().save("m")
    with running(serve.app({"m": "m"})) as asking:
        for body in REQUESTS[report]:
            answer = asking("POST", "/v1/models/m/rank", body)
            assert 400 <= answer.status < 500 and answer.detail, body
        assert asking("POST", "/v1/models/m/rank", {"text": "sea"}).status == 200


# Words of one letter, which the default leaves out as scikit-learn's does: the way out.
@right("scikit-learn/scikit-learn#11834", [["C"], ["D"]])
def _() -> Any:
    texts = ["vitamin c", "vitamin d"]
    words = TfidfVectorizer(min_token_length=1)
    return TextModel(words).fit(texts * 20, [["C"], ["D"]] * 20).rank(texts, k=1).names


# A word, and what stands where a blank should part it from the next: what the warning has.
MARKED = {
    "__label__money,world industry": "'__label__money,world' is read as one label, ',' included",
    "__label__money, world industry": "'__label__money,' is read as one label, ',' included",
    "__label__money; world industry": "'__label__money;' is read as one label, ';' included",
    "__label__money|world industry": "'__label__money|world' is read as one label, '|' included",
    "__label__money: world industry": "'__label__money:' is read as one label, ':' included",
    "__label__money,__label__world industry": "'__label__money,__label__world' is read as one label, ',' included",
    "__label__money__label__world industry": "world' is read as one label, '__label__' included",
    "world __label__money,news": "'__label__money,news' is read as one label, ',' included",
    "__label__money __label__world industry": "",
    "__label__sea-bank_1.a/b world industry": "",
    "__label__http://a.b/c world, industry": "",
}  # fmt: skip


@pytest.mark.parametrize("line", MARKED)
def test_a_label_that_something_else_parts_from_the_text(line: str, call: Any) -> None:
    """facebookresearch/fastText#1055."""
    Path("marked.txt").write_text("__label__news friends quarrel\n" + f"{line}\n" * 5, "utf-8")
    lines = call("train xr-linear marked.txt --model m").err.splitlines()
    warned = [line for line in lines if line.startswith("Warning:")]
    if not MARKED[line]:
        assert not warned
    else:
        (sentence,) = warned
        assert "marked.txt, line 2: '" in sentence and MARKED[line] in sentence and "1 has such a mark" in sentence


def test_the_page_lists_every_report_that_is_repeated_here() -> None:
    listed = set(re.findall(r"^\| \[?([\w.-]+/[\w.-]+#\d+)", PAGE.read_text("utf-8"), re.MULTILINE))
    assert not (RIGHT.keys() | REFUSED.keys() | TARGETS.keys() | REQUESTS.keys()) - listed
