"""SASRec, GRU4Rec, and the encoders of language models: causality, padding on any side, gradients, naive references."""

from typing import Any

import pytest
import torch
from kit.errors import raises
from torch import Tensor

from sylvan.errors import DataError, ParameterError
from sylvan.neural import CausalTransformer, GRU4Rec, LSTMEncoder, SASRec, SequenceEncoder

SMALL: dict[str, Any] = {"dim": 8, "hidden": 12, "max_length": 6}


@pytest.fixture(params=[SASRec, GRU4Rec])
def encoder(request: pytest.FixtureRequest) -> SequenceEncoder:
    torch.manual_seed(0)
    made: SequenceEncoder = request.param(20, **SMALL)
    return made.eval()


def test_default_sizes_are_the_paper_s() -> None:
    sasrec, gru = SASRec(50), GRU4Rec(50)
    assert sasrec(torch.zeros(1, 20, dtype=torch.int64)).shape == (1, 20, 64)
    blocks = sasrec._blocks.layers
    assert len(blocks) == 2
    assert all(block.self_attn.num_heads == 2 and block.linear1.out_features == 128 for block in blocks)
    assert gru._gru.hidden_size == 128 and gru.class_embeddings.shape == (50, 64)


def test_a_query_knows_nothing_of_later_items(encoder: SequenceEncoder) -> None:
    items = torch.tensor([[3, 5, 7, 9, 2, 4]])
    changed = items.clone()
    changed[0, 3:] = torch.tensor([11, 12, 13])
    before, after = encoder(items), encoder(changed)
    torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-6)
    assert (before[:, 3:] - after[:, 3:]).abs().amax(dim=2).min() > 1e-4
    # And each place depends on everything before it.
    earlier = items.clone()
    earlier[0, 0] = 17
    assert (before - encoder(earlier)).abs().amax(dim=2).min() > 1e-5


def test_padding_on_any_side_makes_no_difference(encoder: SequenceEncoder) -> None:
    alone = encoder(torch.tensor([[3, 5, 7]]))
    padded = encoder(torch.tensor([[3, 5, 7, -1, -1], [-1, -1, 3, 5, 7], [-1, 3, -1, 5, 7], [-1, -1, -1, -1, -1]]))
    places = [[0, 1, 2], [2, 3, 4], [1, 3, 4]]
    for row, at in enumerate(places):
        torch.testing.assert_close(padded[row, at], alone[0], rtol=0, atol=1e-5)
        others = [place for place in range(5) if place not in at]
        assert not padded[row, others].any()
    assert not padded[3].any() and torch.isfinite(padded).all()


def test_last_is_the_query_after_the_last_item(encoder: SequenceEncoder) -> None:
    rows = torch.tensor([[3, 5, 7, -1], [-1, 3, 5, 7], [-1, -1, -1, 4], [-1, -1, -1, -1]])
    everywhere = encoder(rows)
    expected = torch.stack([everywhere[0, 2], everywhere[1, 3], everywhere[2, 3], torch.zeros(8)])
    torch.testing.assert_close(encoder.last(rows), expected, rtol=0, atol=1e-6)


def test_gradients_of_the_item_table_are_sparse_and_of_items_that_were_there(encoder: SequenceEncoder) -> None:
    encoder.train()
    encoder(torch.tensor([[3, 5, -1], [-1, 5, 9]])).pow(3).sum().backward()
    gradient = encoder.items.grad
    assert gradient is not None and gradient.is_sparse
    dense = gradient.to_dense()
    assert dense.abs().sum(dim=1).nonzero().flatten().tolist() == [3, 5, 9]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in encoder.inner_parameters())


@pytest.mark.parametrize("kind", [SASRec, GRU4Rec])
def test_tied_and_untied_tables(kind: Any) -> None:
    tied, untied = kind(20, **SMALL), kind(20, **SMALL, tied=False)
    assert tied.class_embeddings is tied.items and len(tied.tables()) == 1
    assert untied.class_embeddings is not untied.items and len(untied.tables()) == 2
    inner = {id(p) for p in untied.inner_parameters()}
    assert not inner & {id(p) for p in untied.tables()}
    assert len(inner) + 2 == len(list(untied.parameters()))


def test_sasrec_s_attention_against_a_naive_reference() -> None:
    """One layer, one head, written out with loops over places."""
    torch.manual_seed(1)
    encoder = SASRec(10, 4, hidden=5, layers=1, heads=1, max_length=5, dropout=0.0).eval()
    items = torch.tensor([2, 7, 1])
    block = encoder._blocks.layers[0]
    hidden = encoder.items[items] * 4**0.5 + encoder.positions[:3]
    norm = torch.nn.functional.layer_norm
    normed = norm(hidden, (4,), block.norm1.weight, block.norm1.bias)
    q, k, v = (normed @ block.self_attn.in_proj_weight.T + block.self_attn.in_proj_bias).split(4, dim=1)
    rows: list[Tensor] = []
    for place in range(3):
        weights = torch.softmax(torch.stack([q[place] @ k[j] / 2 for j in range(place + 1)]), 0)
        attended = sum(weights[j] * v[j] for j in range(place + 1))
        row = hidden[place] + attended @ block.self_attn.out_proj.weight.T + block.self_attn.out_proj.bias
        inner = norm(row, (4,), block.norm2.weight, block.norm2.bias)
        inner = torch.relu(inner @ block.linear1.weight.T + block.linear1.bias)
        rows.append(row + inner @ block.linear2.weight.T + block.linear2.bias)
    last = encoder._blocks.norm
    expected = norm(torch.stack(rows), (4,), last.weight, last.bias)
    torch.testing.assert_close(encoder(items[None])[0], expected, rtol=1e-5, atol=1e-5)


def test_items_of_the_wrong_shape_and_parameters_out_of_range(encoder: SequenceEncoder) -> None:
    for wrong in (torch.zeros(3, dtype=torch.int64), torch.zeros(1, 7, dtype=torch.int64)):
        with raises(DataError, "[1, 6]"):
            encoder(wrong)
    with raises(ParameterError, "heads", "SASRec", 8, 3):
        SASRec(20, 8, heads=3)


def test_the_lstm_carries_its_state() -> None:
    torch.manual_seed(0)
    encoder = LSTMEncoder(20, embedding=6, hidden=5, dropout=0.5).eval()
    ids = torch.randint(20, (3, 8))
    whole, _ = encoder(ids)
    first, state = encoder(ids[:, :5], encoder.zero_state(3))
    second, _ = encoder(ids[:, 5:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    assert whole.shape == (3, 8, encoder.dim_out)


def test_the_transformer_looks_back_only() -> None:
    torch.manual_seed(0)
    encoder = CausalTransformer(20, dim=8, n_heads=2, feed_forward=16, max_length=6)
    ids = torch.randint(20, (3, 6))
    changed = ids.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 20
    for module in (encoder.train(), encoder.eval()):
        a, b = module(ids), module(changed)
        torch.testing.assert_close(a[:, :4], b[:, :4])
        assert not torch.allclose(a[:, 4:], b[:, 4:])
    swapped = ids[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(encoder(ids)[:, 5], encoder(swapped)[:, 5])  # positions matter


def test_wrong_encoders() -> None:
    with raises(ParameterError, "n_heads", 3):
        CausalTransformer(20, dim=8, n_heads=3)
    with raises(DataError, 4, "max_length"):
        CausalTransformer(20, dim=8, n_heads=2, feed_forward=8, max_length=4)(torch.zeros(1, 5, dtype=torch.int64))
