"""Presets of texts: what each is, its parts' parameters, and refusals."""

import pytest
from kit.books import load_sample
from kit.errors import raises

from sylvan import Ensemble, Reranker, TextModel, XRLinear, preset
from sylvan.errors import ParameterError
from sylvan.models.presets import TEXT_PRESETS


def test_the_two_below_are_text_models() -> None:
    balanced, fast = preset("balanced"), preset("fast", n_jobs=1, model__beam=7)
    assert type(balanced) is TextModel and repr(balanced) == repr(TextModel())
    assert fast.model.get_params() == XRLinear.preset("fast", n_jobs=1, beam=7).get_params()
    assert fast.vectorizer.n_jobs == 1


def test_the_two_above_have_the_members_below() -> None:
    accurate, best = preset("accurate", n_jobs=1), preset("best", n_jobs=1, label_encoder="x", n_trees=3)
    assert type(accurate) is Ensemble and type(best) is Reranker and best.label_encoder == "x" and best.n_trees == 3
    assert [repr(member) for member in best.members[:3]] == [repr(each) for each in accurate.members]
    assert repr(accurate.members[0]) == repr(preset("balanced", n_jobs=1))
    assert {member.n_jobs for member in best.members if hasattr(member, "n_jobs")} == {1}
    assert preset("accurate", member0__model__beam=7).get_params()["member0__model__beam"] == 7
    assert preset("accurate").members[0] is not preset("accurate").members[0]


@pytest.mark.parametrize("name", TEXT_PRESETS)
def test_each_learns_texts(name: str) -> None:
    train, test = load_sample()
    quick = {"scorer": "trees", "n_trees": 5} if name == "best" else {}
    model = preset(name, n_jobs=1, **quick).fit(train.texts[:500], train.labels[:500])  # type: ignore[call-overload]
    assert [len(row) for row in model.rank(test.texts[:2], k=3).names] == [3, 3]
    first = model.members[0] if name in ("accurate", "best") else model
    assert first.label_texts_ is not None, "names that are words are rows of every preset"


def test_what_is_refused() -> None:
    with raises(ParameterError, "fast", "balanced", "accurate", "best", "bset"):
        preset("bset")  # type: ignore[call-overload]
    with raises(ParameterError, "depth"):
        preset("accurate", depth=3)
