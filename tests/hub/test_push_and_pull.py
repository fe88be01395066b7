"""Pushing to and pulling from a stand-in for the Hub, in Python and by ``sylvan push`` and ``sylvan pull``."""

import io
import os
import re
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import yaml
from hub_server import LABELS, READER, TEXTS, WRITER, Hub
from kit.bits import same_bits
from kit.errors import raises

import sylvan
from sylvan import TextModel, TfidfVectorizer, XRLinear, store
from sylvan.errors import DataError, HubError, ModelError, ParameterError
from sylvan.hub import Pushed, pull, push
from sylvan.hub.push import license_of

NAME = "someone/books"


def metadata(files: dict[str, bytes]) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(files["README.md"].decode().split("---\n")[1])
    return found


def test_there_and_back(hub: Hub, saved: str, tmp_path: Path) -> None:
    pushed = push(saved, NAME, license="apache-2.0", message="First")
    assert isinstance(pushed, Pushed) and pushed.repository == NAME
    assert pushed.revision == hub.repos[NAME].refs["main"] and pushed.url.endswith(f"{NAME}/commit/{pushed.revision}")
    files = hub.files(NAME)
    wanted = {*store.files_of(saved), "manifest.json", "README.md", ".gitattributes"}
    assert set(files) == wanted and hub.repos[NAME].messages[-1] == "First"
    assert all(files[name] == Path(saved, name).read_bytes() for name in wanted - {"README.md", ".gitattributes"})
    (commit,) = hub.asked("/commit/")
    assert commit.body.count(b'"key": "header"') + commit.body.count(b'"key":"header"') == 1, "one commit holds it all"
    assert hub.asked("PUT /lfs/") and hub.asked("POST /lfs/verify"), "large files go by git-lfs"
    for mmap in (True, False):
        same_bits(sylvan.from_pretrained(NAME, mmap=mmap), sylvan.load(saved))
    folder = pull(NAME, tmp_path / "books")
    assert folder == str(tmp_path / "books")
    same_bits(sylvan.load(folder), sylvan.load(saved))
    assert not any(Path(folder, name).is_symlink() for name in os.listdir(folder))
    assert store.load(folder).meta["pulled"] == {"repository": NAME, "revision": pushed.revision}


def test_the_card_is_the_first_page(hub: Hub, saved: str) -> None:
    push(saved, NAME, license="cc-by-4.0")
    text = hub.files(NAME)["README.md"].decode()
    assert metadata(hub.files(NAME)) == {
        "library_name": "sylvan",
        "tags": ["sylvan", "extreme-classification", "text-model"],
        "pipeline_tag": "text-classification",
        "license": "cc-by-4.0",
    }
    call = 'sylvan.from_pretrained("someone/books")'
    for words in ("# someone/books", call, 'pip install "sylvan[hub]"', "| whaling |"):
        assert words in text, words
    assert not Path(saved, "README.md").exists(), "nothing is written into the model's folder"


def test_figures_of_training_are_metrics(hub: Hub, saved: str, tmp_path: Path) -> None:
    TextModel.from_pretrained(saved).save(tmp_path / "m")
    measures = {"P": {"1": 0.5, "5": 0.25}, "nDCG": {"1": 0.5}, "PSP": {"1": 1 / 3}}
    store.annotate(tmp_path / "m", {"measured": {"on": "test.jsonl", "rows": 2000, "measures": measures}})
    push(tmp_path / "m", NAME)
    (entry,) = metadata(hub.files(NAME))["model-index"]  # type: ignore[misc, attr-defined]
    assert entry["name"] == "books"
    (result,) = entry["results"]
    assert result["dataset"]["name"] == "test.jsonl (2,000 rows)" and result["task"] == {"type": "text-classification"}
    assert [(one["type"], one["value"]) for one in result["metrics"]] == [
        ("precision_at_1", 0.5), ("precision_at_5", 0.25), ("ndcg_at_1", 0.5), ("psp_at_1", 0.3333),
    ]  # fmt: skip


def test_nothing_else_of_the_folder_is_pushed(hub: Hub, saved: str, tmp_path: Path) -> None:
    TextModel.from_pretrained(saved).save(tmp_path / "m")
    for name in ("optimizer.pkl", "pytorch_model.bin", "notes.txt", ".env", "stray.5f3a09c1.npy"):
        (tmp_path / "m" / name).write_bytes(b"secret")
    (tmp_path / "m" / "checkpoints").mkdir()
    (tmp_path / "m" / "checkpoints" / "step.npy").write_bytes(b"secret")
    push(tmp_path / "m", NAME)
    assert set(hub.files(NAME)) == {*store.files_of(tmp_path / "m"), "manifest.json", "README.md", ".gitattributes"}
    assert not any(b"secret" in request.body for request in hub.requests)


def test_a_new_model_takes_the_place_of_the_old_one(hub: Hub, saved: str) -> None:
    hub.repo(NAME)
    hub.repos[NAME].commit({**hub.files(NAME), "figure.png": b"png", "data/words.npy": b"theirs"})
    first = push(saved, NAME).revision
    before = hub.files(NAME)
    other = TextModel(TfidfVectorizer(), XRLinear()).fit(TEXTS[:12], LABELS[:12])
    second = other.push_to_hub(NAME).revision
    after = hub.files(NAME)
    assert {"figure.png", "data/words.npy", ".gitattributes"} <= set(after), "files that aren't Sylvan's stay"
    assert not {name for name in before if re.search(r"[0-9a-f]{8}\.npy", name)} & set(after)
    same_bits(sylvan.from_pretrained(NAME), other)
    same_bits(sylvan.from_pretrained(NAME, revision=first), sylvan.load(saved))
    same_bits(sylvan.from_pretrained(f"hf://{NAME}@{second}"), other)
    assert push(pull(NAME), NAME).revision == hub.repos[NAME].refs["main"] == second, "the same again is no commit"


def test_branches_and_tags(hub: Hub, saved: str) -> None:
    on_main = push(saved, NAME).revision
    other = XRLinear().fit(np.eye(4, dtype=np.float32), [[0], [1], [0], [1]])
    on_branch = other.push_to_hub(NAME, revision="next/v2").revision
    assert hub.repos[NAME].refs == {"main": on_main, "next/v2": on_branch}
    assert other.push_to_hub(NAME, revision="next/v2").repository == NAME, "a branch that is there is used"
    hub.repos[NAME].refs["v1.0"] = on_main
    assert isinstance(sylvan.from_pretrained(f"{NAME}@v1.0"), TextModel)
    assert isinstance(XRLinear.from_pretrained(NAME, revision="next/v2"), XRLinear)
    with raises(ModelError, "someone/books", "TextModel", "XRLinear"):
        XRLinear.from_pretrained(NAME)
    with raises(HubError, "v9", "someone/books"):
        sylvan.from_pretrained(NAME, revision="v9")


def test_private_repositories(hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    push(saved, NAME, private=True)
    assert hub.repos[NAME].private
    push(saved, NAME, private=True)
    assert isinstance(sylvan.from_pretrained(NAME, token=READER), TextModel)
    push(saved, "someone/open")
    with raises(HubError, "someone/open", "private"):
        push(saved, "someone/open", private=True)
    monkeypatch.delenv("HF_TOKEN")
    with raises(HubError, "HF_TOKEN"):
        sylvan.from_pretrained(NAME, revision="main2")
    assert isinstance(sylvan.from_pretrained("someone/open"), TextModel), "no token is needed for what is public"


def test_a_readme_of_your_own(hub: Hub, saved: str, tmp_path: Path) -> None:
    TextModel.from_pretrained(saved).save(tmp_path / "m")
    own = "---\nlicense: mit\ntags: [books]\nlanguage: en\n---\n# Books\n\nMine.\n"
    (tmp_path / "m" / "README.md").write_text(own)
    assert license_of(tmp_path / "m") == "mit"
    push(tmp_path / "m", NAME)
    assert hub.files(NAME)["README.md"].decode().endswith("---\n# Books\n\nMine.\n")
    found = metadata(hub.files(NAME))
    assert (found["license"], found["tags"], found["language"]) == ("mit", ["books"], "en"), "yours goes first"
    assert found["library_name"] == "sylvan"
    push(tmp_path / "m", NAME, license="apache-2.0")
    assert metadata(hub.files(NAME))["license"] == "apache-2.0"
    (tmp_path / "m" / "README.md").write_text("---\na: [\n---\n# Books\n")
    with raises(DataError, "YAML", "metadata"):
        push(tmp_path / "m", NAME)
    (tmp_path / "m" / "README.md").write_text("---\n- a\n---\n# Books\n")
    with raises(DataError, "mapping"):
        push(tmp_path / "m", NAME)


def test_the_card_of_what_was_pulled(hub: Hub, saved: str, tmp_path: Path) -> None:
    """It is that of the pulled model for inspect, too, and its metadata stays when it is written again."""
    push(saved, NAME, license="mit")
    folder = pull(NAME, tmp_path / "m")
    text = (tmp_path / "m" / "README.md").read_text()
    assert str(store.contents(folder)["checksum"]) in text and text.startswith("---\nlibrary_name: sylvan\n")
    (tmp_path / "m" / "README.md").write_text("# Mine\n")
    pull(NAME, tmp_path / "m")
    assert (tmp_path / "m" / "README.md").read_text() == "# Mine\n", "what somebody wrote there stays"
    (tmp_path / "m" / "README.md").unlink()
    (tmp_path / "m" / "README.md").symlink_to(tmp_path / "elsewhere")
    pull(NAME, tmp_path / "m")
    assert not (tmp_path / "elsewhere").exists(), "a link isn't written through"
    (tmp_path / "elsewhere").write_text(text)
    pull(NAME, tmp_path / "m")
    assert (tmp_path / "elsewhere").read_text() == text


def test_a_folder_is_replaced_as_a_whole_or_not_at_all(hub: Hub, saved: str, tmp_path: Path) -> None:
    hub.publish(NAME, saved)
    XRLinear().fit(np.eye(3, dtype=np.float32), [[0], [1], [2]]).save(tmp_path / "m")
    name = next(name for name in hub.files(NAME) if name.endswith(".npy"))
    hub.repos[NAME].commit({**hub.files(NAME), name: hub.files(NAME)[name][:-1] + b"x"})
    with raises(ModelError, "checksum"):
        pull(NAME, tmp_path / "m")
    assert isinstance(sylvan.load(tmp_path / "m"), XRLinear)
    hub.publish(NAME, saved)
    pull(NAME, tmp_path / "m")
    assert isinstance(sylvan.load(tmp_path / "m", mmap=False), TextModel)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    asked = len(hub.requests)
    with raises(ModelError, "empty"):
        pull(NAME, tmp_path / "mine")
    assert len(hub.requests) == asked, "said before anything is downloaded"


def test_only_what_the_manifest_names_is_downloaded(hub: Hub, saved: str) -> None:
    hub.publish(NAME, saved)
    hub.repos[NAME].commit({**hub.files(NAME), "model.pkl": b"\x80\x04cos\nsystem\n.", "big.bin": b"0" * 1000})
    folder = pull(NAME)
    assert set(os.listdir(folder)) == {*store.files_of(folder), "manifest.json", "README.md"}
    assert not hub.asked(r"resolve/.*(pkl|bin)")


def test_offline_from_the_cache(hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = hub.publish(NAME, saved)
    sylvan.from_pretrained(NAME)
    asked = len(hub.requests)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for source in (NAME, f"{NAME}@{first}"):
        same_bits(sylvan.from_pretrained(source), sylvan.load(saved))
    assert len(hub.requests) == asked
    for source in ("someone/else", f"{NAME}@{'0' * 40}"):
        with raises(HubError, "HF_HUB_OFFLINE"):
            sylvan.from_pretrained(source)
    with raises(HubError, "HF_HUB_OFFLINE", "pushed"):
        push(saved, NAME)
    cached = Path(pull(NAME))
    next(cached.glob("*.npy")).unlink()
    with raises(HubError, "complete"):
        sylvan.from_pretrained(NAME)


def test_a_hub_that_nobody_reaches(hub: Hub, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(NAME, saved)
    sylvan.from_pretrained(NAME)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    same_bits(sylvan.from_pretrained(NAME), sylvan.load(saved))
    with raises(HubError, "refused"):
        sylvan.from_pretrained("someone/else")


def test_what_is_in_the_cache_is_not_downloaded_again(hub: Hub, saved: str) -> None:
    hub.publish(NAME, saved)
    pull(NAME)
    asked = len(hub.asked("GET /lfs/"))
    assert asked > 0
    pull(NAME)
    sylvan.from_pretrained(NAME)
    assert len(hub.asked("GET /lfs/")) == asked


def test_vectorisers_vocabularies_and_folders(hub: Hub, saved: str, tmp_path: Path) -> None:
    vectorizer = TfidfVectorizer().fit(TEXTS)
    vectorizer.push_to_hub("someone/words")
    assert "pipeline_tag" not in metadata(hub.files("someone/words"))
    again = TfidfVectorizer.from_pretrained("someone/words")
    assert (again.transform(TEXTS) != vectorizer.transform(TEXTS)).nnz == 0
    sylvan.load(saved).vocabulary_.save(tmp_path / "v")
    push(tmp_path / "v", "someone/labels")
    assert list(sylvan.from_pretrained("someone/labels")) == ["poetry", "sea", "whaling"]
    assert isinstance(sylvan.from_pretrained(tmp_path / "v"), type(sylvan.load(saved).vocabulary_))
    XRLinear().fit(np.eye(3, dtype=np.float32), [0, 1, 2]).push_to_hub("someone/rows")
    assert metadata(hub.files("someone/rows"))["pipeline_tag"] == "tabular-classification"


def test_the_source_of_a_model(hub: Hub, saved: str, tmp_path: Path) -> None:
    from sylvan.hub.card import read_card
    from sylvan.hub.card_text import as_text

    commit = push(saved, NAME).revision
    look = {"levels": 0, "branches": 1, "n_labels": 0}
    for folder in (pull(NAME), pull(NAME, tmp_path / "m")):
        card = read_card(folder, **look)
        assert f"From someone/books on the Hugging Face Hub, commit {commit}." in as_text(card)
        assert card.as_json()["source"] == {"repository": NAME, "revision": commit}
    assert read_card(saved, **look).as_json()["source"] is None
    push(tmp_path / "m", "other/copy")
    pull("other/copy", tmp_path / "m")
    assert read_card(str(tmp_path / "m"), **look).as_json()["source"]["repository"] == "other/copy"
    store.annotate(tmp_path / "m", {"pulled": {"repository": 3}})
    with raises(ModelError, "pulled"):
        read_card(str(tmp_path / "m"), **look)


@pytest.mark.parametrize(
    "name",
    ["books", "a/b/c", "../up", "a/..", "a--b/c", "/a/b", "a/b@", "a/b@../x", "https://some.hub/a/b", "", "a b/c", 3],
)
def test_names_of_repositories(hub: Hub, saved: str, name: str) -> None:
    for call in (lambda: push(saved, name), lambda: pull(name), lambda: sylvan.from_pretrained(name)):
        with raises(ParameterError, str(name).rpartition("@")[2] or "''"):
            call()
    assert not hub.requests


def test_two_revisions(hub: Hub) -> None:
    with raises(ParameterError, "v1", "a/b@v1", "v2"):
        pull("a/b@v1", revision="v2")


def test_no_token_is_shown_or_sent_elsewhere(hub: Hub, saved: str, capfd: pytest.CaptureFixture[str]) -> None:
    push(saved, NAME)
    sylvan.from_pretrained(NAME)  # the stand-in asserts that git-lfs' host isn't given it
    hub.fail("GET", "/api/models/someone/books", 418, message=f"bad token {WRITER}")
    with pytest.raises(HubError) as caught:
        push(saved, NAME, private=True)
    out, err = capfd.readouterr()
    assert WRITER not in str(caught.value) + out + err
    assert not any(WRITER.encode() in request.body for request in hub.requests)
    assert [request.path for request in hub.asked("/api/") if request.token != WRITER] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_push_and_pull(call: Any, hub: Hub, saved: str, tmp_path: Path) -> None:
    _, out, err = call("push", saved, NAME, "--license", "mit", "--message", "The first")
    commit = hub.repos[NAME].refs["main"]
    assert out == f"{hub.url}/{NAME}/commit/{commit}\n"
    assert err == f"Pushed {saved} to someone/books, commit {commit}.\n"
    assert hub.repos[NAME].messages[-1] == "The first"
    folder = str(tmp_path / "m")
    _, out, err = call("pull", NAME, folder)
    assert out == f"{folder}\n" and err.startswith(f"Pulled someone/books, commit {commit} (")
    _, out, err = call("inspect", folder)
    assert err == "" and f"From someone/books on the Hugging Face Hub, commit {commit}." in out
    call("inspect", folder, "--card", "-q")
    assert (tmp_path / "m" / "README.md").read_text().startswith("---\nlibrary_name: sylvan\n")
    _, out, err = call("pull", f"{NAME}@{commit}", "-q")
    assert err == "" and isinstance(sylvan.load(out.strip()), sylvan.TextModel)


def test_the_license_is_asked_for(call: Any, hub: Hub, saved: str) -> None:
    assert call("push", saved, NAME).err.startswith("The card names no license: give one with --license.\n")
    for answer, said in (("apache-2.0\n", b"license: apache-2.0\n"), ("\n", b"")):
        assert "License of the model" in call("push", saved, NAME, stdin=Terminal(answer)).err
        head = hub.files(NAME)["README.md"].split(b"---")[1]
        assert said in head and (b"license" in head) == bool(said)


def test_private_and_branches(call: Any, refused: Any, hub: Hub, saved: str) -> None:
    call("push", saved, NAME, "--private", "--revision", "v2", "-q")
    assert hub.repos[NAME].private and set(hub.repos[NAME].refs) == {"main", "v2"}
    call("pull", NAME, "--revision", "v2", "-q")
    said = "Error: someone/books holds no Sylvan model: it has no manifest.json.\n"
    assert refused(said, "pull", NAME) == said


@pytest.mark.parametrize(("words", "code", "said"), [
    ("push {saved} books", 2, "is called 'owner/name'"), ("pull someone/none", 1, "has no such model"),
    ("push {tmp}/none someone/books", 2, "there is no such folder"), ("pull", 2, "Missing argument"),
    ("pull someone/books {saved}/manifest.json", 2, "is a file, not a folder"),
    ("pull someone/books@v7", 1, "has no revision 'v7'"), ("predict hf://books x -q", 2, "is called 'owner/name'"),
])  # fmt: skip
def test_errors_are_sentences(
    words: str, code: int, said: str, refused: Any, hub: Hub, saved: str, tmp_path: Path
) -> None:
    hub.publish(NAME, saved)
    assert refused(said, words.format(saved=saved, tmp=tmp_path), code=code).count("\n") == 1


def test_a_model_of_the_hub_answers(call: Any, hub: Hub, saved: str) -> None:
    commit = hub.publish(NAME, saved)
    for source in (f"hf://{NAME}", f"hf://{NAME}@{commit}"):
        assert call("predict", source, "-", "-k", "1", "-q", stdin=b"whale hunting\n").labels == [["whaling"]]
