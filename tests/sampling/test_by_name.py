"""Samplers and losses by name: the right class, the right weights, and sentences for what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kit.errors import raises
from sampling.suite import Case, loss_by_name

from sylvan import sampling
from sylvan.errors import ParameterError
from sylvan.sampling import make_loss, make_sampler, make_tail_sampler
from sylvan.sampling.by_name import _LOSSES, _SAMPLERS, LOSSES, SAMPLERS

COUNTS = [9, 4, 1, 0, 16, 1, 1, 4, 9, 25]


def there(kind: str) -> bool:
    return hasattr(sampling, kind)


def needs(kind: str) -> None:
    if not there(kind):
        pytest.skip(f"{kind} isn't there")


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_is_made(name: str) -> None:
    if not Case(name).there:
        pytest.skip(f"{name} isn't there")
    parameters: dict[str, Any] = {"n_codewords": 3} if "midx" in name else {}
    sampler = make_sampler(name, 10, 4, counts=COUNTS, **parameters)
    assert type(sampler).__name__ == _SAMPLERS[name].kind
    assert sampler.n_classes == 10
    assert not sampler.adaptive or sampler.dim == 4
    for key, value in _SAMPLERS[name].fixed.items():
        assert getattr(sampler, key) == value


def test_midx_is_weighted_by_the_root_of_the_counts_unless_told_otherwise() -> None:
    needs("MIDX")
    weighted: Any = make_sampler("midx-rq", 10, 4, counts=COUNTS, n_codewords=3)
    assert torch.as_tensor(weighted.class_weights).tolist() == [count**0.5 for count in COUNTS]
    plain: Any = make_sampler("midx-rq", 10, 4, counts=COUNTS, n_codewords=3, class_weights=None)
    assert plain.class_weights is None
    joint: Any = make_sampler("midx-joint-rq", 10, 4, counts=COUNTS, n_codewords=3)
    assert joint.learnable == "joint" and joint.class_weights is None
    without: Any = make_sampler("midx-rq", 10, 4, n_codewords=3)
    assert without.class_weights is None


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_made(name: str) -> None:
    needs(_LOSSES[name].kind)
    if name == "full":
        assert type(make_loss(name)).__name__ == "FullSoftmaxLoss"
        with raises(ParameterError, "sampler"):
            make_loss(name, make_sampler("uniform", 10), 5)
        return
    if name == "cane":
        pytest.skip("another test")
    loss: Any = loss_by_name(name, 10, 5, counts=COUNTS, dim=4)
    assert type(loss).__name__ == _LOSSES[name].kind
    assert loss.n_samples == 5
    for key, value in _LOSSES[name].fixed.items():
        assert getattr(loss, key) == value
    with raises(ParameterError, "sampler"):
        make_loss(name, None, 5)
    with raises(ParameterError, "n_samples"):
        make_loss(name, loss.sampler)


def test_a_tail_is_all_but_the_most_frequent_classes() -> None:
    sampler = make_tail_sampler("unigram", 10, counts=COUNTS, n_head=4)
    assert sampler.drawn.tolist() == [1, 2, 3, 5, 6, 7]  # of the two nines both are in the head; ties by their ids
    own: Any = sampler.sampler
    assert own.counts.tolist() == [4, 1, 0, 1, 1, 4]
    assert make_tail_sampler("uniform", 5, counts=[1, 1, 1, 1, 1], n_head=2).drawn.tolist() == [2, 3, 4]
    for wrong in (0, 10, 2.0, True):
        with raises(ParameterError, "n_head", "make_tail_sampler", "[1, 9]"):
            make_tail_sampler("unigram", 10, counts=COUNTS, n_head=wrong)  # type: ignore[arg-type]
    with raises(ParameterError, ("sampler"), "HeadAndTailLoss"):
        make_loss("head-and-tail", make_sampler("uniform", 10), 5)


def test_cane_gets_its_candidates() -> None:
    needs("CANELoss")
    noise = make_sampler("uniform", 10)
    loss: Any = make_loss("cane", noise, 3, counts=COUNTS, dim=4, n_noises=2, split="count", n_subsets=3)
    assert (loss.n_noises, loss.noise) == (2, noise)
    assert (loss.candidates.n_candidates, loss.candidates.n_subsets, loss.candidates.split) == (3, 3, "count")
    assert make_loss("cane", noise, 3, counts=COUNTS, dim=4).candidates.n_subsets == 5
    own: Any = make_loss("cane", noise, candidates=lambda queries, table: torch.zeros(len(queries), 1).long())
    assert own.n_noises == 1
    for missing, needed in [({"counts": COUNTS}, "dim"), ({"dim": 4}, "counts")]:
        with raises(ParameterError, "cane", needed):
            make_loss("cane", noise, 3, **missing)
    with raises(ParameterError, "cane", "n_samples"):
        make_loss("cane", noise, counts=COUNTS, dim=4)
    with raises(ParameterError, "cane", "sampler"):
        make_loss("cane", None, 3, counts=COUNTS, dim=4)
    with raises(ParameterError, "n_noise"):
        make_loss("cane", noise, 3, counts=COUNTS, dim=4, n_noise=1)


def test_unknown_names_and_parameters_are_told_with_the_known_ones() -> None:
    with raises(ParameterError, "unifrom"):
        make_sampler("unifrom", 10)
    with raises(ParameterError, "'softmax'", "eq1"):
        make_loss("softmax")
    with raises(ParameterError, "unigram", "pwoer"):
        make_sampler("unigram", 10, counts=COUNTS, pwoer=1.0)


def test_what_is_missing_is_told() -> None:
    with raises(ParameterError, "counts"):
        make_sampler("unigram", 10)
    with raises(ParameterError, "dim"):
        make_sampler("softmax", 10)
