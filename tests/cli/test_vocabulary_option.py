"""``--vocabulary`` names labels that are codes, and ``--label-texts`` of train and update finds labels without rows."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.books import load_sample

import sylvan
from sylvan import Ensemble, NeighborRanker, TextModel, data

NAMES = {
    "Whaling": "Walfang", "Baking": "Backen", "Astronomy": "Himmelskunde", "Gardening": "Gartenbau",
    "Chess": "Brettspiel", "Türkçe": "Brettspiel",
}  # fmt: skip
GERMAN = "--vocabulary subjects.csv --language de"


@pytest.fixture
def subjects(in_folder: Path) -> None:
    rows = "".join(f"{code},{code} in English,{name}\n" for code, name in NAMES.items())
    Path("subjects.csv").write_text(f"uri,label_en,label_de\n{rows}", "utf-8")
    Path("subjects.tsv").write_text("".join(f"{code}\t{name}\n" for code, name in NAMES.items()), "utf-8")
    records = [{"label": code, "text": [name, "more"]} for code, name in NAMES.items()]
    data.write_records("subjects.jsonl", records)
    Path("names.txt").write_text("\n".join(sorted(NAMES)), "utf-8")


pytestmark = pytest.mark.usefixtures("subjects")


@pytest.mark.parametrize("options", [GERMAN, "--vocabulary subjects.tsv", "--vocabulary subjects.jsonl"])
def test_predict_writes_names_and_codes(options: str, call: Any) -> None:
    predict = "predict {text-model} {test.jsonl} -k 2"
    plain, named = call(predict).labels, call(f"{predict} {options}").rows
    assert [row["uris"] for row in named] == plain
    assert [row["labels"] for row in named] == [[NAMES[code] for code in row] for row in plain]


@pytest.mark.parametrize("kind", ["text", "ensemble", "matrix"])
def test_explanations_read_names_in_titles_and_paths(kind: str, call: Any, files: Any) -> None:
    train = data.read_jsonl(files("train.jsonl"))
    model: Any = TextModel(model=sylvan.XRLinear(branching=2, max_leaf=2)).fit(train.texts, train.labels)
    row = "--text 'bread and flour'"
    if kind == "ensemble":
        model = Ensemble.of_fitted([model, TextModel().fit(train.texts, train.labels)])
    elif kind == "matrix":
        data.save_npz("X.npz", model.vectorizer.transform(train.texts))
        model, row = model.model, "X.npz --label-names names.txt"
    model.save("m")
    explain = f"explain m {row} {GERMAN}"

    def explained(label: str) -> Any:
        (found,) = call(f"{explain} --label {label} --json -").json
        return found

    shown = call(f"{explain} --label Baking").out
    assert shown.startswith("Backen (Baking): ")
    alone = {code for code, name in NAMES.items() if name != "Brettspiel"}  # two labels have that name
    assert not any(code in shown.partition("\n")[2] for code in alone), shown
    found = explained("Backen")
    assert (found["name"], found["code"]) == ("Backen", "Baking")
    titles = [step["title"] for path in found["trees"][0]["paths"] for step in path["steps"]]
    assert titles[-1] == "Backen" and any(name in titles[0] for name in NAMES.values())
    found = explained("Chess")
    assert (found["name"], found["code"]) == ("Brettspiel", "Chess")
    assert found["trees"][0]["paths"][0]["steps"][-1]["title"] == "Brettspiel (Chess)"
    best = call(f"{explain} -k 2 --json -").json
    assert len(best) == 2 and best[0]["code"] in NAMES


def test_examples_are_found_by_codes(call: Any, files: Any) -> None:
    explain = "explain {text-model} --text 'bread and flour' --label Baking --json - --examples"
    plain = call(f"{explain} {{train.jsonl}}").json[0]["examples"]
    train = data.read_jsonl(files("train.jsonl"))
    rows = TextModel(sylvan.load(files.text_model).vectorizer, NeighborRanker()).fit(train.texts, train.labels)
    rows.save("rows")
    for examples in ("{train.jsonl}", "rows"):
        found = call(f"{explain} {examples} {GERMAN}").json[0]["examples"]
        assert [one["row"] for one in found] == [one["row"] for one in plain] and len(found) == 3


def test_cards_name_clusters_and_labels(call: Any, refused: Any, files: Any) -> None:
    found = call(f"inspect {{text-model}} {GERMAN} --labels 6 --json -").json
    assert {row["name"] for row in found["labels"]} == {f"{name} ({code})" for code, name in NAMES.items()}
    below = [child["title"] for child in found["trees"][0]["top"]["children"]]
    assert sorted(below) == sorted(NAMES.values())
    again = call(f"inspect {{matrix-model}} --label-names names.txt {GERMAN} --labels 6 --json -").json
    assert again["labels"] == found["labels"]
    sylvan.load(files.text_model).vectorizer.save("vectorizer")
    refused("names labels, of which there are none here", "inspect vectorizer --vocabulary subjects.csv")


def test_labels_that_are_numbers_are_named_by_them(call: Any) -> None:
    Path("numbers.tsv").write_text("0\tzero\n3\tthree\n")
    call("predict {matrix-model} {test.xmc} --vocabulary numbers.tsv -k 6 -o top.csv")
    with open("top.csv", newline="", encoding="utf-8") as stream:
        named = {(row["label"], row["name"]) for row in csv.DictReader(stream)}
    assert {("0", "zero"), ("3", "three"), ("1", "")} <= named


@pytest.mark.parametrize("verb", ["predict {text-model} {test.jsonl}", "explain {text-model} --text bread",
                                  "inspect {text-model}"])  # fmt: skip
@pytest.mark.parametrize(("options", "said"), [
    ("--language en", "--language is for the labels of a --vocabulary"),
    ("--vocabulary other.tsv", "names none of the model's labels: it has 'u:1', for instance, and the model"),
    ("--vocabulary subjects.csv --language fr", "has no labels in the language 'fr': its languages are de"),
    ("--vocabulary missing.tsv", "There is no file 'missing.tsv'."),
])  # fmt: skip
def test_what_cannot_be_named_is_said(verb: str, options: str, said: str, refused: Any) -> None:
    Path("other.tsv").write_text("<u:1>\tsomething\n")
    refused(said, f"{verb} {options}")


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the sample without one heading, and texts of headings."""
    folder = tmp_path_factory.mktemp("files")
    train, _ = load_sample()
    rows = [(text, [name for name in labels if name != "Whaling"]) for text, labels in zip(*train[:2], strict=True)]
    rows = [row for row in rows if row[1]][:800]
    data.write_jsonl(folder / "train.jsonl", [text for text, _ in rows], [labels for _, labels in rows])
    (folder / "whaling.tsv").write_text("Whaling\twhale hunting\twhales and whalers\n")
    return folder


@pytest.fixture
def place(files: Any, described: Path) -> Callable[[str], str]:
    """Models of the corpus, and files with texts of labels as {titles} and {whaling}."""
    named = {"titles": "train.jsonl", "whaling": "whaling.tsv"}
    return lambda name: str(described / named[name]) if name in named else files(name)


def found(name: str) -> bool:
    model = sylvan.load("m")
    return name in model.rank(["The whales and the whalers of the north, a book of whale hunting"], k=5).names[0]


HUNTING = "explain m --text 'A book of hunting' --label Whaling --json -"


def test_labels_without_rows_come_by_train_and_update(call: Any, described: Path) -> None:
    call("train xr-linear {titles} --model m --label-texts names --set keep_rows=true --set unlearned=answer -q")
    assert not found("Whaling")
    update = "update m --label-texts {whaling}"
    assert call(f"{update} --plan").out.startswith("Would update m: 1 label described.")
    assert call(update).err == "Updated m: 1 label added, 1 described.\n"
    assert found("Whaling")
    facts = call("inspect m --json -").json["facts"]
    assert facts["labels known by their texts alone"] == 1
    n_rows = len(data.read_jsonl(described / "train.jsonl").texts)
    n_texts = facts["further rows that are texts of labels"]
    assert facts["training rows"] == n_rows and n_rows + n_texts == len(sylvan.load("m").model.row_ids_)
    counted = f"Keeps its {n_rows + n_texts:,} rows, those that are texts of labels among them, for updates"
    assert counted in call("inspect m").out
    (explained,) = call(HUNTING).json
    words = "No training row has this label yet: it is ranked by its own text, which shares 'hunting' with this one."
    assert explained["notes"] == [words] and explained["score"] == explained["probability"]
    members = "--set member0__model=xr-linear --set member1__model=neighbors"
    call(f"train ensemble {{titles}} {members} --model m --label-texts names -q")
    facts = call("inspect m --json -").json["facts"]
    assert facts["training rows"] == n_rows and facts["further rows that are texts of labels"] > 700


def test_an_encoder_of_labels_goes_into_the_model(call: Any) -> None:
    neural = pytest.importorskip("sylvan.neural")
    neural.BagTextEncoder(dim=8, n_buckets=500).save_pretrained("encoder")
    texts = "--label-texts names --label-encoder encoder --set unlearned=answer --quiet"
    assert call(f"train xr-linear {{titles}} --model m {texts}").err == ""
    known = sylvan.load("m").label_texts_
    assert known.label_vectors.shape[1] == 8 and known.curve.shape == (6,)
    Path("encoder", "config.json").unlink()
    call("update m --label-texts {whaling}")
    (explained,) = call(HUNTING).json
    assert "The cosine of their vectors is" in explained["notes"][0]


def test_a_model_over_matrices_takes_no_texts(refused: Any) -> None:
    sylvan.XRLinear().fit([[1.0, 0], [0, 1]], [0, 1]).save("m")
    said = "is for a TextModel or a LexicalMatcher. Got a XRLinear instead."
    refused(said, "update m --label-texts {whaling}")


def test_a_vocabulary_says_what_codes_are_called(call: Any, described: Path) -> None:
    rows = data.read_jsonl(described / "train.jsonl")
    texts, labels = rows.texts[:200], rows.labels[:200]
    code = {name: f"http://example.org/{n}" for n, name in enumerate(sorted({it for row in labels for it in row}))}
    data.write_jsonl("codes.jsonl", texts, [[code[name] for name in row] for row in labels])
    lines = [f"<{uri}>\t{name}\n" for name, uri in code.items()] + ["<http://example.org/none>\tno row has it\n"]
    Path("names.tsv").write_text("".join(lines))
    cases = {
        "named": "", "plain": "--label-texts none", "limited": "--memory-limit 4GB", "kept": "--set keep_rows=true",
    }  # fmt: skip
    for folder, more in cases.items():
        outcome = call(f"train xr-linear codes.jsonl --model {folder} --vocabulary names.tsv {more}")
        said = outcome.err + outcome.out
        assert "Warning" not in outcome.err
        assert ("The texts of labels are used as training rows" in said) == (folder == "named")
        model = sylvan.load(folder)
        assert (model.label_texts_ is not None) == (folder == "named") and model.n_labels_ == len(code)
        assert ("Names of the vocabulary are no training rows" in said) == (folder in ("limited", "kept"))


def test_a_vocabulary_is_what_labels_words_are(call: Any, described: Path) -> None:
    """Those of a LexicalMatcher, which needs no rows, and finds nothing by URIs."""
    Path("names.tsv").write_text("<u:1>\tWhaling\n<u:2>\tBaking\n<u:3>\tChess\n")
    data.write_jsonl("codes.jsonl", ["whaling ships", "baking bread"], [["u:1"], ["u:2"]])
    for rows, said in (("codes.jsonl", "with 3 labels"), ("", "knows 3 labels by their texts alone")):
        outcome = call(f"train lexical {rows} --model m --vocabulary names.tsv")
        assert said in outcome.err + outcome.out
        assert sylvan.load("m").rank(["a game of chess"], k=1).names == [["u:3"]]
    data.write_jsonl("codes.jsonl", ["whaling ships", "baking bread"], [["http://u/1"], ["http://u/2"]])
    warned = "Warning: The labels are URIs, which stand in no text: --label-texts says what they are called.\n"
    assert warned in call("train lexical codes.jsonl --model m").err
