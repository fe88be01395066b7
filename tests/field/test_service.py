"""What the service answers to requests and settings as they come in from the field: (request, status, body)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra 'serve'")

from serve.asgi import Asking, running

from sylvan import Ensemble, LexicalMatcher, NeighborRanker, Reranker, TextModel, XRLinear, data, serve
from sylvan.errors import SylvanError
from sylvan.models.base import Estimator
from sylvan.serve.settings import ServedFolder

# Codes, what they are called, and words of texts about them. Two are called alike.
SUBJECTS = {
    "u:1": ("Whaling", "whales harpoon sea hunting"),
    "u:2": ("Baking", "bread oven flour cakes"),
    "u:3": ("Bank", "money loans interest credit"),
    "u:4": ("Bank", "river shore reeds water"),
    "u:5": ("Poetry", "verse rhyme poems metre"),
    "u:6": ("Gardens", "roses soil spade seeds"),
}


@functools.cache
def corpus() -> tuple[list[str], list[list[str]]]:
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for row in range(240):
        codes = list(rng.choice(list(SUBJECTS), 1 + row % 2, replace=False))
        words = [word for code in codes for word in rng.choice(SUBJECTS[code][1].split(), 3)]
        texts.append(" ".join(["about", SUBJECTS[codes[0]][0].lower(), *words]))
        labels.append(codes)
    return texts, labels


def xr(**options: Any) -> TextModel:
    return TextModel(model=XRLinear(branching=2, max_leaf=2, n_jobs=1, **options))


def lexical() -> LexicalMatcher:
    return LexicalMatcher(n_trees=5, n_jobs=1)


def neighbors() -> TextModel:
    return TextModel(model=NeighborRanker(n_jobs=1))


# Models of every kind that explains; those over texts take examples.
KINDS: dict[str, Any] = {
    "xr": xr,
    "trees": lambda: xr(n_trees=2),
    "neighbors": neighbors,
    "lexical": lexical,
    "inside": lambda: TextModel(model=Ensemble([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)])),
    "ensemble": lambda: Ensemble([xr(), neighbors(), lexical()]),
    "lexical-first": lambda: Ensemble([lexical(), xr()]),
    "reranker": lambda: Reranker([xr(), lexical()], n_trees=5),
}


def fitted(kind: str) -> Estimator:
    texts, labels = corpus()
    model: Estimator = KINDS[kind]()
    if isinstance(model, LexicalMatcher):
        return model.fit(texts, labels, label_texts={code: [name] for code, (name, _) in SUBJECTS.items()})
    return model.fit(texts, labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models of every kind, one over matrices, and files beside them that fit, don't fit, or are damaged."""
    folder = tmp_path_factory.mktemp("served")
    texts, labels = corpus()
    for kind in KINDS:
        fitted(kind).save(folder / kind)
    XRLinear(n_jobs=1).fit(np.eye(6).repeat(9, axis=0), np.arange(6).repeat(9)).save(folder / "matrix")
    subjects = "".join(f"<{code}>\t{name}\n" for code, (name, _) in SUBJECTS.items())
    (folder / "subjects.tsv").write_text(subjects, encoding="utf-8")
    (folder / "other.tsv").write_text("<v:1>\tWhaling boats\n", encoding="utf-8")
    (folder / "languages.csv").write_text("uri,label_de\nu:1,Walfang\n", encoding="utf-8")
    (folder / "damaged.ttl").write_bytes(b"\x00\xff<<<< not turtle")
    data.write_jsonl(folder / "train.jsonl", texts, labels)
    data.write_jsonl(folder / "other.jsonl", texts[:5], [["another"]] * 5)
    (folder / "damaged.jsonl").write_text("{not json\n", encoding="utf-8")
    table = [f'"{text}",{";".join(row)}' for text, row in zip(texts, labels, strict=True)]
    (folder / "train.csv").write_text("\n".join(["text,labels", *table]), encoding="utf-8")
    return folder


def served(folder: Path, name: str, **files: str | None) -> ServedFolder:
    paths = {key: str(folder / value) if key != "language" else value for key, value in files.items() if value}
    return ServedFolder(name, str(folder / name), **paths)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def asking(folder: Path) -> Iterator[Asking]:
    """All kinds over texts with a vocabulary and examples."""
    beside = {"vocabulary": "subjects.tsv", "examples": "train.jsonl"}
    with running(serve.app([served(folder, kind, **beside) for kind in KINDS])) as asking:
        yield asking


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_call_labels_as_people_do_of_every_kind_of_model(asking: Asking, kind: str) -> None:
    for label, title in (("u:1", "Whaling"), ("u:3", "Bank")):
        answer = asking("POST", f"/v1/models/{kind}/explain", {"text": "whales and loans at sea", "label": label})
        assert answer.status == 200, answer.body
        explanation = answer.json()["explanation"]
        assert (explanation["name"], explanation["code"]) == (title, label)
        steps = [step for tree in explanation["trees"] for path in tree["paths"] for step in path["steps"]]
        assert not re.search("u:[1256]", str([step["title"] for step in steps]))
        if kind != "lexical":
            assert [corpus()[1][one["row"]].count(label) for one in explanation["examples"]] == [1, 1, 1]
        ranked = asking("POST", f"/v1/models/{kind}/rank", {"text": "whaling whales", "k": 2, "explain": True})
        assert ranked.status == 200 and ranked.json()["results"][0]["names"][0] == "Whaling"
        assert ranked.json()["results"][0]["explanations"][0]["name"] == "Whaling"


@pytest.mark.parametrize("kind", KINDS)
def test_paths_lead_through_a_tree_that_the_service_has(asking: Asking, kind: str) -> None:
    card = asking("GET", f"/v1/models/{kind}").json()
    found = asking("POST", f"/v1/models/{kind}/explain", {"text": "whales", "label": "u:1"}).json()
    assert bool(found["tree_paths"]) is bool(card["n_trees"]) is (kind in ("xr", "trees"))
    for path in found["tree_paths"]:
        assert asking("GET", f"/v1/models/{kind}/tree?node={path[-1]}").json()["node"]["label"] == "u:1"


# A setting of one model beside a sound one: what is said of it, and whether the model answers nevertheless.
SETTINGS = [
    ("xr", {"examples": "train.jsonl"}, None),
    ("xr", {"examples": "train.csv"}, None),
    ("ensemble", {"examples": "train.jsonl"}, None),
    ("reranker", {"examples": "train.jsonl"}, None),
    ("lexical", {"examples": "train.jsonl"}, None),
    ("matrix", {"examples": "train.jsonl"}, "'examples' setting isn't used: .* takes features"),
    ("matrix", {"vocabulary": "subjects.tsv"}, "'vocabulary' setting isn't used: .* ids without names"),
    ("xr", {"examples": "other.jsonl"}, "'examples' setting isn't used: No text in .*other.jsonl has a label"),
    ("ensemble", {"examples": "damaged.jsonl"}, "'examples' setting isn't used: .*damaged.jsonl"),
    ("reranker", {"examples": "gone.jsonl"}, "'examples' setting isn't used: .*gone.jsonl"),
    ("lexical", {"vocabulary": "other.tsv"}, "'vocabulary' setting isn't used: .* names none of the model's labels"),
    ("xr", {"vocabulary": "damaged.ttl"}, "'vocabulary' setting isn't used: .*damaged.ttl"),
    ("ensemble", {"vocabulary": "gone.tsv"}, "'vocabulary' setting isn't used: .*gone.tsv"),
    ("reranker", {"vocabulary": "languages.csv", "language": "fi"}, "'language' setting isn't used: .*'fi', but in de"),
    ("xr", {"vocabulary": "languages.csv", "language": "de"}, None),
]


@pytest.mark.parametrize(("kind", "files", "said"), SETTINGS)
def test_a_setting_that_does_not_fit_takes_no_model_down(
    folder: Path, capfd: pytest.CaptureFixture[str], kind: str, files: dict[str, str], said: str | None
) -> None:
    sound = ServedFolder("sound", str(folder / "neighbors"))
    with running(serve.app([served(folder, kind, **files), sound])) as asking:
        health = asking("GET", "/health/ready").json()["models"]
        assert health["sound"] == {"ready": True, "version": health["sound"]["version"], "message": None}
        body = {"features": [{"indices": [0], "values": [1.0]}]} if kind == "matrix" else {"text": "whales"}
        assert asking("POST", f"/v1/models/{kind}/rank", body).status == 200
        assert health[kind]["ready"] is True
        card = asking("GET", f"/v1/models/{kind}").json()
    message = health[kind]["message"]
    assert card["message"] == message
    if said is None:
        assert message is None
        return
    assert re.search(said, message) and message.endswith("."), message
    assert f"The model {kind!r} is served, but: {message}" in capfd.readouterr().err


def test_a_model_that_can_not_be_opened_takes_no_other_down(folder: Path, tmp_path: Path) -> None:
    bad = {"gone": str(tmp_path / "nowhere"), "empty": str(tmp_path), "file": str(folder / "subjects.tsv")}
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{}", encoding="utf-8")
    bad["damaged"] = str(tmp_path / "damaged")
    with running(serve.app({**bad, "sound": str(folder / "xr")})) as asking:
        health = asking("GET", "/health/ready")
        assert health.status == 200 and health.json()["ready"] is True
        assert asking("POST", "/v1/models/sound/rank", {"text": "whales"}).status == 200
        for name, path in bad.items():
            one = health.json()["models"][name]
            assert one["ready"] is False and Path(path).name in one["message"]
            answer = asking("POST", f"/v1/models/{name}/rank", {"text": "whales"})
            assert answer.status == 503 and one["message"] in answer.detail
    with pytest.raises(SylvanError, match="nowhere"):
        serve.app(bad)
