"""What people look at: explanations, the tree, the search through it, labels by their beginnings, cards, health."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve.asgi import Asking, running
from serve.models import sample, text_model

import sylvan
from sylvan import TextModel, TfidfVectorizer, serve
from sylvan.serve import ServedFolder, answers
from sylvan.serve.answers import find_terms
from sylvan.serve.versions import Version, open_version

BOOKS = "/v1/models/books"


def test_an_explanation_is_that_of_the_model(asking: Asking, model: Any) -> None:
    text = sample()[2][0]
    label = model.rank([text], 1).names[0][0]
    answer = asking("POST", f"{BOOKS}/explain", {"text": text, "label": label, "features": 4}).json
    expected = json.loads(json.dumps(model.explain(text, label, 4).to_dict()))
    got = dict(answer["explanation"])
    examples = got.pop("examples")
    expected.pop("examples")
    assert got == expected
    by_id = asking("POST", f"{BOOKS}/explain", {"text": text, "label": model.vocabulary_.id(label), "features": 4})
    assert by_id.json == answer
    assert answer["tree_paths"][0] == [
        f"0/{step['layer']}.{step['node']}" for step in expected["trees"][0]["paths"][0]["steps"]
    ]
    without = asking("POST", f"{BOOKS}/explain", {"text": text, "label": label, "features": 4, "examples": 0}).json
    assert without["explanation"] == {**got, "examples": []}
    texts, labels, _ = sample()
    assert examples and all(label in labels[one["row"]] for one in examples)
    assert all(texts[one["row"]].startswith(one["excerpt"].rstrip("…")[:20]) for one in examples)


def test_spans_are_where_the_words_stand(asking: Asking, model: Any) -> None:
    text = f"Grüße — {sample()[0][0].upper()}: ".replace(" ", "\n ") * 2
    label = model.rank([text], 1).names[0][0]
    answer = asking("POST", f"{BOOKS}/explain", {"text": text, "label": label, "features": 1000}).json
    weights: dict[str, float] = {}
    for step in answer["explanation"]["trees"][0]["paths"][0]["steps"]:
        for feature in step["positive"] + step["negative"]:
            weights[feature["name"]] = weights.get(feature["name"], 0) + feature["contribution"]
    words = [(match.group().lower(), match.start(), match.end()) for match in re.finditer(r"\w+", text)]
    expected = set()
    for term, weight in weights.items():
        parts = term.split(" ")
        for at in range(len(words) - len(parts) + 1):
            run = words[at : at + len(parts)]
            if [word for word, *_ in run] == parts:
                expected.add((run[0][1], run[-1][2], round(weight, 9)))
    assert {(span["start"], span["end"], round(span["weight"], 9)) for span in answer["spans"]} == expected
    assert len({text[start:end] for start, end, _ in expected}) > 3
    assert any("\n" in text[start:end] for start, end, _ in expected)


@given(st.text("aAbİßΣ-漢字 ", max_size=30), st.sampled_from(["a", "ab", "a b", "b a", "漢字", "漢", "ß", "a+b(", ""]))
def test_terms_are_found_wherever_a_slow_search_finds_them(text: str, term: str) -> None:
    words = [(m.group(), m.start(), m.end()) for m in re.finditer(r"\w+", text)]
    lowered = [("".join(c.lower() if len(c.lower()) == 1 else c for c in word), a, b) for word, a, b in words]
    parts = term.split()
    expected = [
        (lowered[at][1], lowered[at + len(parts) - 1][2])
        for at in range(len(words) - len(parts) + 1)
        if parts and [word for word, *_ in lowered[at : at + len(parts)]] == parts
    ]
    found = [(span.start, span.end) for span in find_terms(text, {term: 1.0}, by_words=True, lowercase=True)]
    if term.isascii():
        # Matches of a term don't overlap; a slow search finds those that begin within another one, too.
        kept: list[tuple[int, int]] = []
        for start, end in expected:
            if not kept or start >= kept[-1][1]:
                kept.append((start, end))
        assert found == kept
    else:
        assert all("".join(c.lower() if len(c.lower()) == 1 else c for c in text[a:b]) == term for a, b in found)
        assert set(expected) <= set(found) or term not in "漢字ß"


@pytest.mark.parametrize(
    ("text", "weights", "params", "found"),
    [
        ("WHALING in the South  Seas: the whales", {"whale": 1.0, "south sea": 0.5, "of the": 0.1}, {"stem": "en"},
         ["WHALING", "South  Seas", "whales"]),
        ("ein Haus, wir hausen, Häuser", {"haus": 1.0}, {"lemmatize": "de"}, ["Haus", "Häuser"]),
        ("Whaling, whales", {"whales": 1.0}, {}, ["whales"]),
    ],
)  # fmt: skip
def test_stems_and_lemmas_are_marked_at_the_words_counted_as_them(
    text: str, weights: dict[str, float], params: dict[str, Any], found: list[str]
) -> None:
    pytest.importorskip("snowballstemmer")
    pytest.importorskip("simplemma")
    texts = ["whales of the seas", "a voyage", "bread and cakes", "viele Häuser"]
    model = TextModel(TfidfVectorizer(ngrams=(1, 2), **params)).fit(texts, [["a"], ["b"], ["c"], ["d"]])
    spans = answers._spans(SimpleNamespace(model=model), text, weights)  # type: ignore[arg-type]
    assert [text[span.start : span.end] for span in spans] == found


def test_a_row_of_features_is_explained(asking: Asking, folders: dict[str, str]) -> None:
    rows = sylvan.load(folders["rows"])
    X = text_model().vectorizer.transform(sample()[2][:1])
    row = {"indices": X.indices.tolist(), "values": X.data.astype(float).tolist()}
    label = int(rows.rank(X, 1).labels[0, 0])
    answer = asking("POST", "/v1/models/rows/explain", {"row": row, "label": label}).json
    assert answer["explanation"]["place"] == 1 and answer["spans"] == []
    beyond = {"indices": [X.shape[1]], "values": [1.0]}
    refused = asking("POST", "/v1/models/rows/explain", {"row": beyond, "label": label})
    assert refused.status == 422 and f"The 'row' field has index {X.shape[1]}, but the model's are" in refused.detail


def test_rank_with_explanations(asking: Asking, model: Any) -> None:
    text = sample()[2][1]
    (result,) = asking("POST", f"{BOOKS}/rank", {"text": text, "k": 2, "explain": True}).json["results"]
    assert [each["name"] for each in result["explanations"]] == result["labels"] == model.rank([text], 2).names[0]


def test_the_tree_is_the_models_tree(asking: Asking, model: Any) -> None:
    tree = model.model.tree_
    seen: set[str] = set()

    def look(key: str, layer: int, node: int) -> None:
        part = asking("GET", f"{BOOKS}/tree?node={key}").json
        assert part["depth"] == tree.depth and part["n_trees"] == 1
        found = part["node"]
        assert found["id"] == key and "more" not in found
        assert not any("children" in child for child in found["children"])
        first, last = tree.child_offsets[layer + 1][node : node + 2]
        assert {child["id"] for child in found["children"]} == {
            f"0/{layer + 1}.{child}" for child in range(first, last)
        }
        for child in found["children"]:
            number = int(child["id"].rpartition(".")[2])
            below = tree.leaf_labels[tree.leaves(layer + 1, number).start : tree.leaves(layer + 1, number).stop]
            assert child["labels"] == len(set(below.tolist()))
            assert child["leaf"] == (layer + 1 == tree.depth - 1)
            if child["leaf"]:
                assert child["title"] == child["label"] == model.vocabulary_[int(below[0])]
                seen.add(child["title"])
        if not found["children"][0]["leaf"]:
            for child in found["children"][:2]:
                look(child["id"], layer + 1, int(child["id"].rpartition(".")[2]))

    look("0/root", -1, 0)
    assert seen
    deep = asking("GET", f"{BOOKS}/tree?depth=4").json["node"]

    def count(node: dict[str, Any]) -> int:
        return 1 + sum(count(child) for child in node.get("children", ()))

    assert count(deep) <= 2001


def test_the_search_through_the_tree(asking: Asking, model: Any) -> None:
    text = sample()[2][0]
    answer = asking("POST", f"{BOOKS}/beam", {"text": text, "beam": 3}).json
    layers = model.searched(text, 0, 3)
    assert len(answer["layers"]) == model.model.tree_.depth
    for layer, (shown, (nodes, scores)) in enumerate(zip(answer["layers"], layers, strict=True)):
        assert [one["id"] for one in shown] == [f"0/{layer}.{node}" for node in nodes.tolist()[:200]]
        np.testing.assert_allclose([one["score"] for one in shown], scores[:200])
        assert [one["followed"] for one in shown] == [place < 3 for place in range(len(shown))]
    top = model.rank([text], 10, beam=3)
    assert answer["labels"]["labels"] == top.names[0]
    tree = model.model.tree_
    for name, path in answer["paths"].items():
        leaf = int(np.flatnonzero(tree.leaf_labels == model.vocabulary_.id(name))[0])
        assert path == [f"0/{layer}.{node}" for layer, node in enumerate(tree.path(leaf))]
    assert set(answer["paths"]) == set(top.names[0])


def brute_force(names: list[str], prefix: str, limit: int) -> list[str]:
    wanted = prefix.casefold()
    whole = sorted((n.casefold(), i) for i, n in enumerate(names) if n.casefold().startswith(wanted))
    words = sorted(
        (n.casefold()[m.start() :], i) for i, n in enumerate(names) for m in re.finditer(r"(?<!\w)\w", n.casefold())
        if m.start() and n.casefold()[m.start() :].startswith(wanted)
    )  # fmt: skip
    return [names[i] for i in dict.fromkeys(i for _, i in whole + words)][:limit]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Version]:
    names = [
        "Whaling", "whales", "Ships -- Whaling", "Straße", "STRASSE", "été", "a", "ab", "a b", "Ab c", "-x", "漢字",
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("named")
    TextModel().fit([f"word{i} text" for i in range(len(names))], [[name] for name in names]).save(folder)
    version = open_version(ServedFolder("m", str(folder)))
    return list(version.vocabulary or ()), version


@given(st.text("aAbwhßsSt x-é漢", max_size=5), st.integers(1, 12))
def test_labels_are_completed_as_by_looking_at_each(named: tuple[list[str], Version], prefix: str, limit: int) -> None:
    names, version = named
    assert [one.label for one in version.complete(prefix, limit)] == brute_force(names, prefix, limit)


def test_labels_by_their_beginning(asking: Asking, model: Any) -> None:
    names = list(model.vocabulary_)
    answer = asking("GET", f"{BOOKS}/labels?prefix=whal&limit=5").json["labels"]
    assert [one["label"] for one in answer] == brute_force(names, "whal", 5)
    for one in answer:
        assert one["id"] == names.index(one["label"]) and one["rows"] == model.model.label_counts_[one["id"]]
    assert "in [1, 100]. Got '0'" in asking("GET", f"{BOOKS}/labels?limit=0").detail
    assert asking("GET", f"{BOOKS}/labels?prefix={'a' * 1001}").status == 422
    assert asking("GET", "/v1/models/vectors/labels").status == 422


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    """A model of URIs, and one of names, beside one vocabulary with synonyms and relations."""
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "subjects.csv").write_text(
        "uri,label_en,label_fi,alternative_en,hidden_en,broader\n"
        "u:1,climate changes,ilmastonmuutos,climatic change,hot,u:2\n"
        "u:2,changes,muutos,,,\nu:3,ice ages,,glacial periods|ice times,,u:1\nu:4,weather,sää,,,\n"
    )
    rows = [["u:1"], ["u:3"], ["u:1", "u:4"]] * 4
    texts = ["a warm climate", "an icy time", "rain and storms"] * 4
    names = {"u:1": "climate changes", "u:3": "ice ages", "u:4": "weather"}
    TextModel().fit(texts, rows).save(folder / "uris")
    TextModel().fit(texts, [[names[label] for label in row] for row in rows]).save(folder / "names")
    models = [
        ServedFolder(name, str(folder / name), vocabulary=str(folder / "subjects.csv"), language="en")
        for name in ("uris", "names")
    ]
    with running(serve.app(models)) as one:
        yield one


def test_labels_are_found_by_synonyms_which_are_named(vocabulary: Asking) -> None:
    def found(prefix: str) -> list[tuple[str, str | None]]:
        labels = vocabulary("GET", f"/v1/models/uris/labels?prefix={prefix}").json["labels"]
        return [(label["label"], label.get("synonym")) for label in labels]

    assert found("climate%20change") == [("u:1", None)]
    assert found("climat") == [("u:1", None)]  # once, though its synonym begins so too
    assert found("climatic") == [("u:1", "climatic change")]
    assert found("period") == [("u:3", "glacial periods")]
    assert found("ic") == [("u:3", None)]
    assert found("ilmas") == found("hot") == []  # other languages, and names that aren't shown


def test_a_label_is_taken_by_its_uri_or_its_name(vocabulary: Asking) -> None:
    """As the command line takes it; other languages and synonyms are no labels."""

    def asked(route: str, **fields: Any) -> Any:
        return vocabulary("POST", f"/v1/models/uris/{route}", {"text": "a warm climate", **fields})

    by_uri, by_name = (asked("explain", label=label).json for label in ("u:3", "ice ages"))
    assert by_uri == by_name and by_name["explanation"]["code"] == "u:3"
    (row,) = asked("rank", k=3, allowed=["ice ages", "u:4"]).json["results"]
    assert sorted(row["labels"]) == ["u:3", "u:4"]
    for label in ("ilmastonmuutos", "ice times", "changes"):
        assert "none of the model's labels" in asked("explain", label=label).detail, label


def test_broader_and_narrower_are_those_of_the_vocabulary(vocabulary: Asking) -> None:
    card = vocabulary("GET", "/v1/models/uris").json
    assert card["relations"] is True and card["labels_field"] == "labels" and card["threshold"] is None
    related = vocabulary("GET", "/v1/models/uris/relations?label=u:1").json
    assert related == {
        "broader": [{"label": "u:2", "name": "changes", "known": False}],
        "narrower": [{"label": "u:3", "name": "ice ages", "known": True}], "more": 0,
    }  # fmt: skip
    by_name = vocabulary("GET", "/v1/models/names/relations?label=climate%20changes").json
    assert by_name["narrower"] == [{"label": "ice ages", "name": "ice ages", "known": True}]
    assert by_name["broader"] == related["broader"]
    none = {"broader": [], "narrower": [], "more": 0}
    assert vocabulary("GET", "/v1/models/uris/relations?label=elsewhere").json == none
    assert vocabulary("GET", "/v1/models/uris/relations").status == 422


def test_many_narrower_subjects_are_counted(tmp_path: Path) -> None:
    narrower = [f"u:{number}" for number in range(103)]
    lines = ["uri,label,broader", "u:all,All,", *(f"{uri},subject {uri},u:all" for uri in narrower)]
    (tmp_path / "subjects.csv").write_text("\n".join(lines))
    TextModel().fit(["warm rain", "cold snow"] * 4, [["u:all"], ["u:1"]] * 4).save(tmp_path / "m")
    related = open_version(
        ServedFolder("m", str(tmp_path / "m"), vocabulary=str(tmp_path / "subjects.csv"))
    ).relations("u:all")  # fmt: skip
    assert len(related.narrower) == 100 and related.more == 3


def test_labels_that_are_names_have_uris_beside_them(vocabulary: Asking, asking: Asking) -> None:
    (by_name,) = vocabulary("POST", "/v1/models/names/rank", {"text": "a warm climate", "k": 3}).json["results"]
    codes = {"climate changes": "u:1", "ice ages": "u:3", "weather": "u:4"}
    assert by_name["uris"] == [codes[label] for label in by_name["labels"]]
    (by_uri,) = vocabulary("POST", "/v1/models/uris/rank", {"text": "a warm climate", "k": 3}).json["results"]
    assert "uris" not in by_uri and by_uri["names"][0] in codes
    (plain,) = asking("POST", f"{BOOKS}/rank", {"text": "a warm climate", "k": 3}).json["results"]
    assert "uris" not in plain and "names" not in plain


def test_cards(asking: Asking, model: Any) -> None:
    lines = asking("GET", "/v1/models").json["models"]
    assert [(line["name"], line["takes"], line["ready"]) for line in lines] == [
        ("books", "texts", True), ("rows", "features", True), ("vectors", "vectors", True),
    ]  # fmt: skip
    answer = asking("GET", BOOKS)
    card = answer.json
    assert card["labels"] == model.n_labels_ and card["class"] == "TextModel" and card["calibrated"] is True
    assert card["parameters"]["model"]["max_leaf"] == 20 and card["examples"] and card["n_trees"] == 1
    assert answer.headers["etag"] == f'"{card["version"]}"'
    again = asking("GET", BOOKS, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert asking("GET", "/v1/models/vectors").json["n_trees"] == 0


def test_health_and_metrics(asking: Asking) -> None:
    for path in ("/health/live", "/v2/health/live"):
        assert asking("GET", path).json == {"live": True}
    for path in ("/health/ready", "/v2/health/ready"):
        assert asking("GET", path).json["ready"] is True
    before = counted(asking)
    for _ in range(3):
        asking("POST", f"{BOOKS}/rank", {"text": "whales"})
    asking("POST", f"{BOOKS}/rank", {"text": 5})
    after = counted(asking)
    key = 'sylvan_requests_total{model="books",route="POST /v1/models/{model}/rank",status="%s"}'
    assert after[key % 200] - before.get(key % 200, 0) == 3
    assert after[key % 422] - before.get(key % 422, 0) == 1
    version = asking("GET", BOOKS).json["version"]
    assert after[f'sylvan_model_info{{model="books",version="{version}"}}'] == 1
    assert after["sylvan_process_resident_memory_bytes"] > 1e6
    assert after['sylvan_batch_rows_count{model="books"}'] >= 3


def counted(asking: Asking) -> dict[str, float]:
    lines = asking("GET", "/metrics").body.decode().splitlines()
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def test_the_page_and_its_files(asking: Asking) -> None:
    answer = asking("GET", "/")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
    assert asking("GET", "/page/de.json").headers["content-type"] == "application/json"
    for name in re.findall(r'(?:src|href)="(page/[^"]+)"', answer.body.decode()):
        assert asking("GET", f"/{name}").status == 200, name
        assert asking("GET", f"/{name}/").status == 404, name


def test_the_document_describes_every_route(asking: Asking) -> None:
    document = asking("GET", "/openapi.json").json
    assert document["openapi"] == "3.1.0"
    routes = {f"{one.method} {one.path}" for one in asking.app.operations}
    assert {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods} == routes
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names) > 20 and document["info"]["title"]
    rank = document["components"]["schemas"]["RankRequest"]["properties"]
    assert rank["k"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 1000}
    assert rank["precision"]["anyOf"][0] == {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    text = json.dumps(document)
    for reference in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert reference in document["components"]["schemas"]
