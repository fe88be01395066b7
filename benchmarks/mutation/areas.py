"""Which sources are mutated, and which test files should notice each: those of its part, the quickest first."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from benchmarks import ROOT

__all__ = ["AREAS", "sources", "tests_of"]

AREAS = {
    "indexing": ("src/sylvan/indexing",),
    "matching": ("src/sylvan/matching",),
    "ranking": ("src/sylvan/ranking",),
    "sampling": ("src/sylvan/sampling", "src/sylvan/sampling/samplers", "src/sylvan/sampling/midx"),
    "losses": ("src/sylvan/sampling/losses",),
    "metrics": ("src/sylvan/metrics",),
    "store": ("src/sylvan/store",),
    "arrays": ("src/sylvan/arrays", "src/sylvan/labels"),
    "data": ("src/sylvan/data", "src/sylvan/data/formats", "src/sylvan/data/parts"),
    "text": ("src/sylvan/text",),
    "models": tuple(
        f"src/sylvan/models{folder}"
        for folder in ("", "/xr", "/ensembles", "/reranker", "/irli", "/beam_tree", "/lexical", "/label_texts")
    ),
    "neural": ("src/sylvan/neural", "src/sylvan/neural/loop", "src/sylvan/neural/text"),
    "serve": ("src/sylvan/serve", "src/sylvan/serve/routes"),
}

_CLASSES = "models/beam_tree/test_class_training reference/test_class_training sampling/heads/test_beam_tree_head"
_CONTRACT = "sampling/test_contract sampling/test_draws"
_LOSSES = "sampling/losses"
_MIDX = "sampling/midx"
_SAMPLERS = "sampling/samplers"
_XR = "reference/test_algorithm2 reference/test_linear models/xr/test_xr_linear"

# By the first pattern that a source's path below src/sylvan matches; * stands for all test files of a folder.
_TESTS = {
    "models/irli/buckets.py": "models/irli/test_buckets models/irli/test_candidates",
    "indexing/clustering.py": "indexing/test_clustering indexing/test_class_tree indexing/test_tree",
    "indexing/codebooks.py": "indexing/test_codebooks",
    "indexing/embeddings.py": "indexing/test_embeddings indexing/test_tree",
    "indexing/tree.py": "indexing/test_class_tree indexing/test_tree indexing/test_clustering",
    "matching/beam.py": "matching/test_changed_scores reference/test_algorithm2 reference/test_label_filter "
    "reference/test_packed reference/test_paths ranking/test_solved models/xr/test_xr_linear",
    "models/irli/bucket_network.py": "models/irli/test_bucket_network",
    "matching/class_beam.py": f"{_CLASSES} reference/test_native_and_torch models/beam_tree/test_beam_tree",
    "matching/negatives.py": f"{_XR} models/xr/test_plan",
    "matching/neighbors.py": "reference/test_neighbors models/test_neighbors explain/test_explanations",
    "models/irli/fitted.py": "reference/test_label_filter models/irli/test_irli_classifier",
    "ranking/boosted_trees.py": "reference/test_boosted_trees ranking/test_lightgbm_trees",
    "ranking/calibrate.py": "reference/test_calibrate models/xr/test_calibration field/test_probabilities",
    "models/beam_tree/solver.py": f"{_CLASSES} reference/test_native_and_torch",
    "ranking/ensemble.py": "reference/test_combine_rankings models/ensembles/test_ensemble",
    "models/xr/estimate.py": "models/xr/test_plan",
    "ranking/linear.py": f"ranking/test_solved {_XR} ranking/test_memory",
    "ranking/solution.py": "ranking/test_solved",
    "ranking/stopping.py": "reference/test_stopping",
    "ranking/tail.py": "ranking/test_tail",
    "ranking/training.py": "models/transformer/test_layer_candidates models/xr/test_relevance ranking/test_solved "
    f"{_XR} models/xr/test_calibration ranking/test_resume ranking/test_memory",
    "ranking/tree_ranker.py": "reference/test_paths reference/test_label_filter reference/test_algorithm2 "
    "matching/test_changed_scores",
    "models/irli/vectors.py": "models/irli/test_vectors reference/test_vector_search",
    "ranking/votes.py": "reference/test_neighbors models/test_neighbors",
    "sampling/by_name.py": f"sampling/test_contract {_LOSSES}/test_wrong_inputs",
    "sampling/beam_tree_head.py": "sampling/heads/test_beam_tree_head",
    "sampling/losses/cane.py": f"{_LOSSES}/test_cane {_LOSSES}/test_frequency_subsets "
    f"{_LOSSES}/test_expected_losses {_LOSSES}/test_wrong_inputs",
    "sampling/losses/sampled_softmax.py": f"reference/test_softmax_losses {_LOSSES}/test_sampled_softmax "
    f"{_LOSSES}/test_noise_losses {_LOSSES}/test_every_loss {_LOSSES}/test_bias_theorems {_LOSSES}/test_wrong_inputs "
    f"{_LOSSES}/test_full_softmax {_LOSSES}/test_expected_losses",
    "sampling/losses/loss.py": f"{_LOSSES}/test_every_loss reference/test_softmax_losses {_LOSSES}/test_wrong_inputs "
    "field/test_labels",
    "sampling/losses/*": f"{_LOSSES}/test_logits {_LOSSES}/test_every_loss reference/test_softmax_losses "
    f"{_LOSSES}/test_sampled_softmax {_LOSSES}/test_noise_losses {_LOSSES}/test_cane "
    f"{_LOSSES}/test_wrong_inputs",
    "sampling/midx/*": f"{_MIDX}/* reference/test_midx_kernel {_CONTRACT}",
    "sampling/rowwise_adagrad.py": "sampling/test_rowwise_adagrad",
    "sampling/samplers/base.py": f"{_SAMPLERS}/test_static_samplers {_CONTRACT}",
    "sampling/samplers/static.py": f"{_SAMPLERS}/test_static_samplers {_SAMPLERS}/test_kernel_samplers {_CONTRACT}",
    "sampling/samplers/kernel_*": f"{_SAMPLERS}/test_kernel_samplers {_CONTRACT}",
    "sampling/tensors.py": f"{_CONTRACT} {_MIDX}/test_midx field/test_torch",
    "metrics/figures.py": "cli/shown/test_figure",
    "metrics/*": "metrics/* field/test_evaluation",
    "store/*": "store/* hub/test_strangers_models",
    "arrays/frames.py": "arrays/test_frames arrays/test_tensors models/test_models_of_frames field/test_labels",
    "arrays/label_filter.py": "arrays/test_label_filter reference/test_label_filter",
    "arrays/topk.py": "arrays/* metrics/test_metrics models/test_models_of_frames",
    "arrays/canonical.py": "arrays/* data/test_row_parts data/test_parts_properties reference/test_neighbors",
    "arrays/*": "arrays/* field/test_labels metrics/test_metrics",
    "labels/*": "labels/* arrays/test_labels field/test_labels data/test_vocabulary models/test_label_encoder",
    "data/formats/*": "data/formats/* field/test_files data/test_streams",
    "data/parts/*": "data/test_parts_properties data/test_row_parts",
    "data/*": "data/* field/test_files field/test_labels",
    "text/*": "text/* field/test_text",
    "models/xr/*": f"{_XR} models/xr/* contract/test_xr_linear ranking/test_resume",
    "models/ensembles/*": "models/ensembles/* contract/test_ensemble models/test_rank_voted",
    "models/reranker/*": "models/reranker/* reference/test_candidate_columns reference/test_neighbor_columns "
    "contract/test_reranker",
    "models/irli/*": "models/irli/* contract/test_irli reference/test_vector_search",
    "models/beam_tree/*": "models/beam_tree/* contract/test_beam_tree",
    "models/lexical/*": "models/lexical/* reference/test_lexical contract/test_lexical_matcher "
    "data/formats/test_subject_terms",
    "models/label_texts/*": "models/test_label_texts reference/test_text_evidence reference/test_label_cosines",
    "models/neighbors.py": "models/test_neighbors reference/test_neighbors contract/test_neighbors",
    "models/compress.py": "models/test_compress",
    "models/*": "models/* contract/test_text_model contract/test_xr_linear contract/test_sklearn "
    "field/test_probabilities",
    "neural/loop/engine.py": "neural/loop/test_engine neural/loop/test_processes neural/loop/*",
    "neural/loop/*": "neural/loop/*",
    "neural/text/bag_*": "neural/text/test_bag_encoder neural/text/test_encoder_files",
    "neural/text/encoder_files.py": "neural/text/test_encoder_files",
    "neural/text/network_encoder.py": "neural/text/test_encoder_files neural/text/test_text_encoders",
    "neural/text/hugging_face.py": "neural/text/test_network_sizes neural/text/test_encoder_files neural/text/*",
    "neural/text/*": "neural/text/*",
    "neural/sequence.py": "neural/sequence/*",
    "serve/*": "serve/test_serving_engine serve/test_ranking serve/test_changes serve/test_startup serve/test_limits "
    "serve/test_api_keys serve/test_looking serve/test_bulk_lines serve/test_annif_routes serve/test_serve_command "
    "field/test_service",
}


def sources(root: Path, area: str) -> list[str]:
    """The Python files of an area, relative to the repository."""
    found = [path for folder in AREAS[area] for path in (root / folder).glob("*.py") if path.name != "__init__.py"]
    return [str(path.relative_to(root)) for path in found]


def _files(name: str) -> list[str]:
    """The test files that a name stands for."""
    if not name.endswith("*"):
        return [f"tests/{name}.py"]
    return [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob(f"{name.removesuffix('*')}test_*.py"))]


def tests_of(path: str) -> list[str]:
    """The test files that should notice a fault in a source.

    Raises
    ------
    KeyError
        When there are none.
    """
    for pattern, names in _TESTS.items():
        if fnmatch.fnmatch(path.removeprefix("src/sylvan/"), pattern):
            paths = [path for name in names.split() for path in _files(name)]
            return list(dict.fromkeys(paths))
    raise KeyError(path)
