"""A given hierarchy of names becomes a tree; circles and other faults become sentences."""

import numpy as np
import pytest

from sylvan import LabelTree
from sylvan.errors import DataError, ParameterError

ANIMALS = {"cat": "animal", "dog": "animal", "oak": "plant", "animal": "being", "plant": "being", "being": None}


def clusters(tree):
    return [set(part.tolist()) for part in np.split(tree.leaf_labels, tree.child_offsets[-1][1:-1])]


def test_labels_stand_below_their_broader_terms():
    tree = LabelTree.from_taxonomy(["oak", "cat", "dog"], ANIMALS)
    assert tree.layer_sizes == (1, 2, 3)
    assert sorted(map(sorted, clusters(tree))) == [[0], [1, 2]]


def test_a_label_with_narrower_terms_stands_with_them():
    tree = LabelTree.from_taxonomy(["animal", "cat", "dog"], ANIMALS)
    assert clusters(tree) == [{0, 1, 2}]


def test_short_branches_and_labels_without_a_place_reach_the_last_layer():
    tree = LabelTree.from_taxonomy(["cat", "being", "unheard of", "oak"], ANIMALS)
    assert tree.depth == 3
    assert sorted(map(sorted, clusters(tree))) == [[0], [1], [2], [3]]
    assert tree.layer_sizes[0] == 2


def test_several_broader_terms_make_clusters_overlap():
    tree = LabelTree.from_taxonomy(
        ["bat", "cat", "crow"], {"bat": ["mammal", "flyer"], "cat": "mammal", "crow": ["flyer"]}
    )
    assert sorted(map(sorted, clusters(tree))) == [[0, 1], [0, 2]]


def test_no_hierarchy_is_flat_and_depth_can_be_limited():
    assert LabelTree.from_taxonomy(["a", "b"], {}) == LabelTree.flat(2)
    assert LabelTree.from_taxonomy(["oak", "cat", "dog"], ANIMALS, max_depth=1) == LabelTree.flat(3)
    two = LabelTree.from_taxonomy(["oak", "cat", "dog"], ANIMALS, max_depth=2)
    assert two.layer_sizes == (1, 3)
    both = LabelTree.from_taxonomy(["a"], {"a": ["x", "y"], "x": "z", "y": "z"}, max_depth=2)
    assert both.n_leaves == 1


def test_a_chain_of_a_thousand_terms_ends_at_the_deepest_layer():
    chain = {f"t{i}": f"t{i + 1}" for i in range(1000)}
    assert LabelTree.from_taxonomy(["t0"], chain).depth == 64


@pytest.mark.parametrize(
    ("names", "parents", "words"),
    [
        (["a"], {"a": "b", "b": "c", "c": "b"}, "circle: b > c > b"),
        (["a"], {"a": "a"}, "circle: a > a"),
        (["a", "b", "a"], {}, "must differ, but 'a' occurs twice"),
        (["a"], {"a": [3]}, "but 3 is a int"),
        ([], {}, "at least one label"),
    ],
)
def test_faults(names, parents, words):
    with pytest.raises(DataError, match=words):
        LabelTree.from_taxonomy(names, parents)


def test_depth_out_of_range():
    with pytest.raises(ParameterError, match=r"'max_depth' parameter must be an int in \[1, 64\] or None. Got 0"):
        LabelTree.from_taxonomy(["a"], {}, max_depth=0)
