"""Rankings over HTTP are those of the model in Python, in every form in which they can be asked for."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from serve.asgi import Asking, ask, running
from serve.models import sample

import sylvan
from sylvan import TextModel, XRLinear, serve
from sylvan.serve import engine

RANK, EXPLAIN = "/v1/models/books/rank", "/v1/models/books/explain"
JSON, NDJSON = "application/json", "application/x-ndjson"


def same(result: dict[str, Any], names: list[str], scores: Any, field: str = "scores") -> None:
    """One result against a row of Python's answer."""
    assert result["labels"] == names
    np.testing.assert_array_equal(np.array(result[field], np.float32), np.asarray(scores)[: len(names)])


def test_one_text_and_several(asking: Asking, model: Any) -> None:
    texts = sample()[2]
    one = asking("POST", RANK, {"text": texts[0]})
    assert one.status == 200
    top = model.rank(texts[:1])
    (result,) = one.json["results"]
    same(result, top.names[0], top.scores[0])
    assert set(result) == {"labels", "scores"}
    several = asking("POST", RANK, {"texts": texts, "k": 7}).json["results"]
    top = model.rank(texts, 7)
    for row, each in enumerate(several):
        same(each, top.names[row], top.scores[row])
    assert asking("POST", RANK, {"texts": []}).json == {"results": []}


@pytest.mark.parametrize(
    "rule", [{"threshold": 0.2}, {"expected": "f1"}, {"precision": 0.5}, {"expected": "f1", "k": 2}]
)
def test_rules_are_those_of_choose(asking: Asking, model: Any, rule: dict[str, Any]) -> None:
    texts = sample()[2]
    results = asking("POST", RANK, {"texts": texts, **rule}).json["results"]
    top = model.choose(texts, **rule)
    assert any(len(names) != 10 for names in top.names)
    for row, each in enumerate(results):
        assert "scores" not in each
        if top.names[row]:
            same(each, top.names[row], top.scores[row], "probabilities")
        else:
            assert each["labels"] == []


def test_probabilities_beside_scores(asking: Asking, model: Any) -> None:
    texts = sample()[2]
    results = asking("POST", RANK, {"texts": texts, "probabilities": True}).json["results"]
    top = model.rank(texts)
    probabilities = model.probabilities(top).scores
    for row, each in enumerate(results):
        same(each, top.names[row], top.scores[row])
        same(each, top.names[row], probabilities[row], "probabilities")


def test_allowed_denied_beam_and_tail(asking: Asking, model: Any) -> None:
    text = sample()[2][0]
    best = model.rank([text], 5).names[0]
    ids = [model.vocabulary_.id(name) for name in best]
    for options, asked in (
        ({"allowed": best[1:3]}, {"allowed": best[1:3]}),
        ({"allowed": ids[2:4]}, {"allowed": best[2:4]}),
        ({"denied": best[:2]}, {"denied": best[:2]}),
        ({"beam": 1}, {"beam": 1}),
        ({"tail": "psp"}, {"tail": "psp"}),
    ):
        (result,) = asking("POST", RANK, {"text": text, "k": 4, **options}).json["results"]
        top = model.rank([text], 4, **asked)
        same(result, top.names[0], top.scores[0])
    assert asking("POST", RANK, {"text": text, "allowed": []}).json["results"][0]["labels"] == []


def test_a_branch_is_the_labels_below_a_node(asking: Asking, model: Any) -> None:
    text = sample()[2][0]
    tree = model.model.tree_
    for node in range(tree.layer_sizes[0]):
        (result,) = asking("POST", RANK, {"text": text, "k": 5, "branch": f"0/0.{node}"}).json["results"]
        leaves = tree.leaves(0, node)
        below = [model.vocabulary_[int(label)] for label in tree.leaf_labels[leaves.start : leaves.stop]]
        top = model.rank([text], 5, allowed=below)
        same(result, top.names[0], top.scores[0])
    whole = asking("POST", RANK, {"text": text, "branch": "0/root"}).json
    assert whole == asking("POST", RANK, {"text": text}).json
    both = {"text": text, "branch": "0/0.0", "allowed": [below[0]]}  # a label of the last node, not of the first
    assert asking("POST", RANK, both).json["results"][0]["labels"] == []


def test_vectors_of_an_index(asking: Asking, folders: dict[str, str]) -> None:
    index = sylvan.load(folders["vectors"])
    queries = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
    results = asking("POST", "/v1/models/vectors/search", {"vectors": queries.tolist(), "k": 6}).json["results"]
    ids, distances = index.search(queries, 6)
    assert [each["ids"] for each in results] == ids.tolist()
    np.testing.assert_allclose([each["distances"] for each in results], distances, rtol=1e-6)
    (ten,) = asking("POST", "/v1/models/vectors/search", {"vectors": queries[:1].tolist()}).json["results"]
    assert len(ten["ids"]) == 10
    wide = {"vectors": queries.tolist(), "k": 2, "probes": 8, "candidates": "all", "min_votes": 1, "order": "votes"}
    found = asking("POST", "/v1/models/vectors/search", wide).json["results"]
    ids, _ = index.search(queries, 2, probes=8, candidates="all", min_votes=1, order="votes")
    assert [each["ids"] for each in found] == ids.tolist()


def test_every_answer_names_its_version(asking: Asking, folders: dict[str, str]) -> None:
    checksum = sylvan.store.contents(folders["books"])["checksum"] if hasattr(sylvan, "store") else None
    answer = asking("POST", RANK, {"text": "whales"}, headers={"X-Request-ID": "mine-7"})
    assert answer.headers["x-request-id"] == "mine-7"
    version = answer.headers["etag"].strip('"')
    assert checksum in (None, version)
    assert answer.headers["sylvan-model"] == f"books@{version}"
    other = asking("POST", RANK, {"text": "whales"}, headers={"X-Request-ID": "bad\nid"})
    assert other.headers["x-request-id"] != "bad\nid"


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        (RANK, {"text": "a", "k": 5000}, "The 'k' field must be an int in [1, 1000]. Got 5000 instead."),
        (RANK, {"text": "a", "k": "3"}, "The 'k' field must be an int in [1, 1000]. Got \"3\" instead."),
        (RANK, {"text": "a", "threshold": 1.5}, "The 'threshold' field must be a number in [0, 1]. Got 1.5 instead."),
        (RANK, {"text": "a", "tops": 1}, "The body has no field 'tops'."),
        (RANK, {"text": "a", "texts": ["b"]}, "The body must have exactly one of 'text', 'texts' and 'features'. Got "
         "'text' and 'texts' instead."),
        (RANK, {"features": []}, "The model takes texts: the body must have 'text' or 'texts'. Got 'features'"),
        ("/v1/models/rows/rank", {"text": "a"}, "The model takes features: the body must have 'features'. Got 'text' "
         "instead."),
        (RANK, {"text": "a", "allowed": ["Whal"]}, "The 'allowed' field holds 'Whal', none of the model's labels."),
        (RANK, {"text": "a", "denied": [10**9]}, "The 'denied' field must hold ids in [0, "),
        (RANK, {"text": "a", "branch": "x"}, "The 'branch' field must be a node, as '0/root' or '0/1.14'"),
        (RANK, {"text": "a", "branch": "7/root"}, "The 'branch' field names tree 7, but the model has 1 tree."),
        (RANK, {"text": "a", "branch": "0/0.99"}, "The 'branch' field names node 0/0.99, which the tree hasn't got."),
        (RANK, {"text": "a", "expected": "f2"}, "expected"),
        (RANK, {"text": "a", "threshold": 0.5, "expected": "f1"}, "threshold"),
        (RANK, {"text": "a", "threshold": 0.5, "tail": "psp"}, "The 'tail' field goes with no stopping rule"),
        (RANK, {"text": "a", "tail": "psp", "probabilities": True}, "only rank takes one"),
        (RANK, {"texts": ["a", "b"], "explain": True}, "The 'explain' field goes with one text or row. Got 2 instead."),
        ("/v1/models/rows/rank", {"features": [{"indices": [1], "values": []}]}, "as many values as indices"),
        ("/v1/models/rows/rank", {"features": [{"indices": [10**9], "values": [1]}]}, "has index 1000000000"),
        ("/v1/models/rows/rank", {"features": [{"indices": [0], "values": [1e60]}]}, "a number in [-1e+18, 1e+18]."),
        ("/v1/models/vectors/search", {"vectors": [[1, 2]]}, "must hold vectors of 8 numbers. Got 2 in vector 0."),
        ("/v1/models/vectors/search", {"vectors": [[1] * 8], "candidates": "many"}, "candidates"),
        ("/v1/models/books/search", {"vectors": [[1]]}, "only an index of vectors is searched"),
        ("/v1/models/rows/search", {"vectors": [[1]]}, "only an index of vectors is searched"),
        ("/v1/models/rows/explain", {"text": "a", "label": 0}, "takes features: the body must have 'row'. Got 'text'"),
        (EXPLAIN, {"text": "a", "label": "Whal"}, "The 'label' field holds 'Whal', none of the model's labels."),
        (EXPLAIN, {"text": "a", "label": 10**8}, "The 'label' field must hold ids in [0, "),
        (EXPLAIN, {"text": "a", "label": True}, "The 'label' field must be"),
        (EXPLAIN, {"text": "a", "label": 0, "features": 0}, "The 'features' field must be an int in [1, 1000]. Got 0"),
        (EXPLAIN, {"label": 0}, "must have exactly one of 'text' and 'row'. Got none"),
        ("/v1/models/books/beam", {}, "The body must have 'text'. Got none instead."),
        ("/v1/models/vectors/rank", {"text": "a"}, "takes vectors: the body must have 'vectors', at /search."),
        (RANK, b'{"text": "a", "k": 1, "id": ":", "k": 1}', "The body gives 'k' twice."),
        (RANK, b'{"text": {"text": "a"}, "text": "a:b"}', "The body gives 'text' twice."),
        (RANK, b'{"text": "a", "id": [1, {"x": 1e400}]}', "'id[1][...]' field holds a number that is out of range."),
        ("/v1/models/rows/beam", {"text": "a"}, "takes features, and this is for texts"),
    ],
)  # fmt: skip
def test_what_can_not_be_answered_is_said(asking: Asking, path: str, body: Any, sentence: str) -> None:
    answer = asking("POST", path, body)
    assert answer.status == 422, answer
    assert sentence in answer.detail


@pytest.fixture(scope="module")
def frozen(folders: dict[str, str]) -> Iterator[Asking]:
    """Three models, one busy and one late. The collector needn't look at what is there by now, at each request."""
    with running(serve.app(dict.fromkeys(("books", "busy", "late"), folders["books"]))) as asking:
        asking.app.service.served["busy"].engine._most = 0
        asking.app.service.served["late"].engine._seconds = 0.0
        gc.collect()
        gc.freeze()
        yield asking


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", RANK, {"text": "whales"}, 200), ("POST", "/v1/models/books/search", {"vectors": []}, 422),
        ("POST", RANK, b"{", 400), ("POST", "/v1/models/cooks/rank", {"text": "whales"}, 404), ("GET", RANK, None, 405),
        ("POST", "/v1/models/busy/rank", {"text": "whales"}, 429),
        ("POST", "/v1/models/late/rank", {"text": "whales"}, 503),
    ],
)  # fmt: skip
def test_a_request_leaves_nothing_to_the_garbage_collector(
    frozen: Asking, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, status: int
) -> None:
    """Under load it would come to what is left after minutes, and every request would wait for it."""
    monkeypatch.setattr(engine, "_PAUSES", (0.0, 0.001))
    n_requests = 20

    async def garbage() -> int:
        first = await ask(frozen.app, method, path, body)
        assert first.status == status, first
        found = []
        gc.disable()
        try:
            for _ in range(5):  # what others leave, such as another application in this process, isn't there each time
                gc.collect()
                for _ in range(n_requests):
                    await ask(frozen.app, method, path, body)
                found.append(gc.collect())
        finally:
            gc.enable()
        return min(found)

    assert frozen.run(garbage()) < n_requests


@pytest.fixture(scope="module")
def clashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A model whose records have fields that are called as the body's own; one of its labels is merged."""
    folder = tmp_path_factory.mktemp("clashing")
    model = TextModel(model=XRLinear(keep_rows=True, n_jobs=1)).fit(
        ["whales at sea", "bread and flour", "roses"] * 6, [["sea"], ["food"], ["plants"]] * 6
    )
    model = model.update(merge={"food": ["plants"]})
    model.text_fields_ = ("text", "id", "beam")
    model.save(folder)
    with running(serve.app({"books": str(folder)})) as one:
        yield one


def test_a_field_of_records_called_as_one_of_the_body_is_not_passed_over(clashing: Asking) -> None:
    record = {"text": "whales", "id": "flour", "beam": "bread"}
    whole = clashing("POST", RANK, {"text": "whales flour bread"}).json["results"][0]
    for body in ({"text": record}, {"texts": [record]}, {"text": record, "k": 10, "beam": 10}):
        assert clashing("POST", RANK, body).json["results"] == [{**whole, "id": "flour"}], body
    assert clashing("POST", RANK, {"text": record, "id": 7}).json["results"] == [{**whole, "id": 7}]
    words = "Field {!r} is the model's and the body's: put the record under 'text'."
    for route, options in (("rank", {"k": 1}), ("explain", {"label": "sea"}), ("beam", {})):
        for more in ({"id": "flour"}, {"beam": 3}):
            if route == "rank" or "beam" in more:
                refused = clashing("POST", RANK.replace("rank", route), {"text": "whales", **more, **options})
                assert refused.status == 422 and words.format(*more) in refused.detail


def test_a_label_that_was_merged_into_another_is_none(clashing: Asking) -> None:
    assert [label["label"] for label in clashing("GET", "/v1/models/books/labels").json["labels"]] == ["food", "sea"]
    assert clashing("GET", "/v1/vocabs/books/subjects").body.decode() == "<food>\tfood\n<sea>\tsea\n"
    assert clashing("GET", "/v1/vocabs").json["vocabs"][0]["size"] == 2
    (gone,) = sylvan.load(clashing.app.service.served["books"].folder.folder).removed_labels_.tolist()
    name = clashing.app.service.served["books"].current.vocabulary[gone]
    for label in (gone, name):
        for body in ({"allowed": [label]}, {"denied": ["sea", label]}):
            refused = clashing("POST", RANK, {"texts": ["whales"], **body})
            assert refused.status == 422 and f"holds label {gone}, which was removed" in refused.detail, refused


@pytest.mark.parametrize(
    ("path", "body", "kind", "sentence"),
    [
        (f"{RANK}?k=3", {"text": "a"}, JSON, "no field 'k': fields go into the body."),
        (f"{RANK}?foo=1", {"text": "a"}, JSON, "no field 'foo': fields go into the body."),
        (f"{RANK}?k=3&foo=1", {"text": "a"}, NDJSON, "no field 'foo', but k, probabilities, threshold, expected, "),
        (f"{RANK}?explain=true", {"text": "a"}, NDJSON, "no field 'explain', but k, "),
        ("/v1/models/books/explain?features=3", {"text": "a", "label": 0}, JSON, "no field 'features': "),
        ("/v1/models/books/labels?prefix=a&limti=2", None, "", "no field 'limti', but prefix, limit."),
        ("/v1/models/books/tree?layer=2", None, "", "no field 'layer', but node, depth."),
        ("/v1/projects/books/suggest-batch?limti=2", {"documents": []}, JSON, "no field 'limti', but limit, "),
        ("/v1/projects/books/suggest?limit=2", b"text=a", "application/x-www-form-urlencoded", "no field 'limit': "),
        ("/v1/vocabs/books/subjects?lang=en", None, "", "no field 'lang', but language."),
    ],
)  # fmt: skip
def test_a_query_with_a_field_that_means_nothing_is_refused(
    asking: Asking, path: str, body: Any, kind: str, sentence: str
) -> None:
    refused = asking("GET" if body is None else "POST", path, body, type=kind)
    assert refused.status == 422 and f"The query has {sentence}" in refused.detail, refused


def test_a_query_goes_by_where_none_is_taken(asking: Asking) -> None:
    """Browsers and load balancers add fields to get round caches."""
    for path in ("/", "/page/de.json", "/health/live", "/metrics", "/openapi.json", "/v1/models", "/v1/projects"):
        assert asking("GET", f"{path}?_=17").status == 200, path


def test_a_name_may_stand_again_inside_a_field(asking: Asking) -> None:
    body = b'{"id": {"id": "a:b", "k:": ":", "k": 2}, "text": "\\"k\\": 1, \\"k\\": 2", "k": 1}'
    assert asking("POST", RANK, body).json["results"][0]["id"] == {"id": "a:b", "k:": ":", "k": 2}


def test_lines_at_fault_keep_their_ids_and_options_are_refused_once(asking: Asking) -> None:
    body = b'{"id": 2, "text": {}}\n{"text": "a", "text": "b"}\n[]\n{"id": 3, "text": "a"}'
    first, second, third, fourth = asking("POST", RANK, body, type=NDJSON).lines
    assert first["id"] == 2 and first["error"].startswith("Line 1: The 'text' field must be a string")
    assert second == {"error": "Line 2: The body gives 'text' twice."} and fourth["id"] == 3
    assert third["error"].startswith("Line 3: ")
    in_body = asking("POST", RANK, {"text": "a", "tail": "dragon"})
    for answer in (in_body, asking("POST", f"{RANK}?tail=dragon", body, type=NDJSON)):
        assert answer.status == 422 and "The 'tail' parameter of rank must be one of 'psp'" in answer.detail
