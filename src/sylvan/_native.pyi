from typing import Any

import numpy as np
import numpy.typing as npt

def aggregate_features(
    x_indptr: npt.NDArray[np.int64],
    x_indices: npt.NDArray[np.int32],
    x_data: npt.NDArray[np.float32],
    n_columns: int,
    members_indptr: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    member_weights: npt.NDArray[np.float32],
    first: int,
    last: int,
    max_features: int,
    out_length: npt.NDArray[np.int64],
    out_indices: npt.NDArray[np.int32],
    out_data: npt.NDArray[np.float32],
) -> None: ...
class TfidfTerms:
    def __init__(self) -> None: ...
    def add(
        self,
        texts: tuple[str, ...],
        start: int,
        stop: int,
        table: npt.NDArray[np.uint32],
        lowercase: bool,
        settings: tuple[int, int, int, int, int],
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]: ...
    def absorb(self, other: TfidfTerms) -> npt.NDArray[np.int32]: ...
    def document_frequencies(self) -> npt.NDArray[np.int32]: ...
    def sort(self, ids: npt.NDArray[np.int32]) -> None: ...
    def copy(self, ids: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
    def __len__(self) -> int: ...
    @property
    def overflowed(self) -> bool: ...
def bound_lines(text: npt.NDArray[np.uint8]) -> tuple[int, int, int]: ...
def canonical_rows(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    data: npt.NDArray[Any],
    n_columns: int,
    out_indptr: npt.NDArray[np.int64],
    out_indices: npt.NDArray[np.int32],
    out_data: npt.NDArray[np.float32],
) -> tuple[int, int]: ...
def cbor_numbers(bytes: npt.NDArray[np.uint8], at: int, out: npt.NDArray[np.float64]) -> int: ...
def check_compressed(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    n_columns: int,
) -> tuple[int, int]: ...
def count_dense(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> tuple[int, int]: ...
def fill_dense(
    values: npt.NDArray[Any],
    indptr: npt.NDArray[np.int64],
    out_indices: npt.NDArray[np.int32],
    out_data: npt.NDArray[np.float32],
) -> bool: ...
def format_lines(
    first: int,
    last: int,
    feature_offsets: npt.NDArray[np.int64],
    features: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    label_offsets: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    label_weights: npt.NDArray[np.float32],
    weighted_labels: bool,
    lowest_feature: int,
    out: npt.NDArray[np.uint8],
) -> int: ...
def parse_lines(
    text: npt.NDArray[np.uint8],
    lowest_feature: int,
    highest_feature: int,
    highest_label: int,
    weighted_labels: bool,
    svmlight: bool,
    feature_counts: npt.NDArray[np.int64],
    features: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    label_counts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    label_weights: npt.NDArray[np.float32],
) -> tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]: ...
def split_dense_rows(
    data: npt.NDArray[np.float32],
    offsets: npt.NDArray[np.int64],
    layer_start: npt.NDArray[np.int64],
    layer: int,
    first: int,
    last: int,
    seed: int,
    spherical: bool,
    max_iterations: int,
    sample: int,
    max_steps: int,
    order: npt.NDArray[np.int32],
) -> None: ...
def split_sparse_rows(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    n_columns: int,
    offsets: npt.NDArray[np.int64],
    layer_start: npt.NDArray[np.int64],
    layer: int,
    first: int,
    last: int,
    seed: int,
    spherical: bool,
    max_iterations: int,
    sample: int,
    max_steps: int,
    order: npt.NDArray[np.int32],
) -> None: ...
def tfidf_add_totals(entries: npt.NDArray[np.uint64], totals: npt.NDArray[np.int64]) -> None: ...
def tfidf_check_terms(
    bytes: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], slots: npt.NDArray[np.uint64]
) -> int: ...
def tfidf_first_non_text(texts: tuple[object, ...]) -> int: ...
def tfidf_keep_columns(
    entries: npt.NDArray[np.uint64], indptr: npt.NDArray[np.int64], column_of: npt.NDArray[np.int32]
) -> None: ...
def tfidf_slots(
    bytes: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]: ...
def tfidf_text_lengths(texts: tuple[str, ...]) -> npt.NDArray[np.int64]: ...
def tfidf_transform(
    texts: tuple[str, ...],
    start: int,
    stop: int,
    table: npt.NDArray[np.uint32],
    lowercase: bool,
    settings: tuple[int, int, int, int, int],
    bytes: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    slots: npt.NDArray[np.uint64],
    idf: npt.NDArray[np.float32],
    use_idf: bool,
    sublinear: bool,
    norm: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]: ...
def tfidf_weigh_rows(
    entries: npt.NDArray[np.uint64],
    indptr: npt.NDArray[np.int64],
    idf: npt.NDArray[np.float32],
    use_idf: bool,
    sublinear: bool,
    norm: int,
    n_columns: int,
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
) -> None: ...

class LabelPaths:
    def __init__(
        self,
        leaf_labels: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        clusters: npt.NDArray[np.int32],
        parents: list[npt.NDArray[np.int32]],
        n_children: list[npt.NDArray[np.int32]],
    ) -> None: ...

class ListedLabels:
    def __init__(
        self,
        open: bool,
        shared: npt.NDArray[np.int32],
        row_offsets: npt.NDArray[np.int64] | None,
        row_labels: npt.NDArray[np.int32],
    ) -> None: ...

class Layer:
    def __init__(
        self,
        n_features: int,
        block_bits: int,
        child_offsets: npt.NDArray[np.int64],
        row_offsets: npt.NDArray[np.int64],
        entry_offsets: npt.NDArray[np.int64],
        block_starts: npt.NDArray[np.uint32],
        keys: npt.NDArray[Any],
        lengths: npt.NDArray[Any],
        children: npt.NDArray[Any],
        weights: npt.NDArray[Any],
        codebook: npt.NDArray[np.float32] | None,
        intercepts: npt.NDArray[np.float32],
    ) -> None: ...

def rank(
    layers: list[Layer],
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    first: int,
    last: int,
    beam: int,
    combine: list[int],
    power: float,
    leaf_labels: npt.NDArray[np.int32],
    n_copies: int,
    exponentiate: bool,
    out_labels: npt.NDArray[np.int32],
    out_scores: npt.NDArray[np.float32],
    paths: LabelPaths | None = None,
    listed: ListedLabels | None = None,
) -> None: ...
def renumber_features(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int32],
    out_local: npt.NDArray[np.int32],
    out_begin: npt.NDArray[np.int64],
    out_features: npt.NDArray[np.int32],
) -> int: ...
def search_layer(
    layer: Layer,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    first: int,
    last: int,
    from_nodes: npt.NDArray[np.int32],
    from_scores: npt.NDArray[np.float32],
    combine: int,
    power: float,
    to_nodes: npt.NDArray[np.int32],
    to_scores: npt.NDArray[np.float32],
) -> None: ...
def solve_group(
    indptr: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    squared_norms: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    local: npt.NDArray[np.int32],
    begin: npt.NDArray[np.int64],
    n_features: int,
    positive_indptr: npt.NDArray[np.int64],
    positive_nodes: npt.NDArray[np.int32],
    relevance: npt.NDArray[np.float32] | None,
    sample_weight: npt.NDArray[np.float32] | None,
    first_node: int,
    n_children: int,
    loss: int,
    positive_cost: float,
    negative_cost: float,
    bias: float,
    tolerance: float,
    max_iterations: int,
    threshold: float,
    max_weights: int,
    seed: int,
    fold_of_row: npt.NDArray[np.uint8] | None,
    n_folds: int,
    scratch: npt.NDArray[np.float32],
    out_feature: npt.NDArray[np.int32],
    out_child: npt.NDArray[np.int32],
    out_weight: npt.NDArray[np.float32],
    out_intercept: npt.NDArray[np.float32],
    intercept_stride: int,
    out_counts: npt.NDArray[np.int64],
) -> int: ...
def solver_scratch_floats(n_rows: int, n_features: int, n_lanes: int, n_folds: int = 0) -> int: ...
def sort_triples(
    feature: npt.NDArray[np.int32],
    child: npt.NDArray[np.int32],
    weight: npt.NDArray[np.float32],
    n_features: int,
    offsets: npt.NDArray[np.int64],
    out_feature: npt.NDArray[np.int32],
    out_length: npt.NDArray[np.int32],
    out_child: npt.NDArray[np.int32],
    out_weight: npt.NDArray[np.float32],
) -> int: ...

class Neighbors:
    def __init__(
        self,
        rare: npt.NDArray[np.int32],
        posting_offsets: npt.NDArray[np.int64],
        posting_rows: npt.NDArray[np.int32],
        posting_values: npt.NDArray[np.float32],
        frequent: npt.NDArray[np.int32],
        row_offsets: npt.NDArray[np.int64],
        row_places: npt.NDArray[np.int32],
        row_values: npt.NDArray[np.float32],
        row_lengths: npt.NDArray[np.float32],
    ) -> None: ...

def join_rankings(
    labels: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    first: int,
    last: int,
    out_labels: npt.NDArray[np.int32],
    out_scores: npt.NDArray[np.float32],
) -> None: ...
def midx_draw(
    heights: npt.NDArray[np.float64],
    second: npt.NDArray[np.float64],
    log_first: npt.NDArray[np.float32],
    log_second: npt.NDArray[np.float32],
    offsets: npt.NDArray[np.int64],
    masses: npt.NDArray[np.float64],
    order: npt.NDArray[Any],
    in_cells: npt.NDArray[np.float64],
    own_scores: npt.NDArray[np.float32],
    coins: npt.NDArray[np.float64],
    ids: npt.NDArray[np.int64],
    log_q: npt.NDArray[np.float32],
) -> None: ...
def nearest_rows(
    index: Neighbors,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    first: int,
    last: int,
    only: npt.NDArray[np.uint8] | None,
    out_rows: npt.NDArray[np.int32],
    out_similarities: npt.NDArray[np.float32],
) -> None: ...
def vote(
    label_offsets: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int32],
    relevance: npt.NDArray[np.float32] | None,
    row_weights: npt.NDArray[np.float32] | None,
    n_labels: int,
    rows: npt.NDArray[np.int32],
    similarities: npt.NDArray[np.float32],
    power: float,
    first: int,
    last: int,
    out_labels: npt.NDArray[np.int32],
    out_scores: npt.NDArray[np.float32],
    listed: ListedLabels | None = None,
) -> None: ...

class BucketCounters:
    def __init__(self, n_labels: int, n_buckets: int, n_repetitions: int) -> None: ...

class BucketLists:
    def __init__(
        self, offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32], n_labels: int
    ) -> None: ...

def bucket_candidates(
    lists: BucketLists,
    counters: BucketCounters,
    chosen: npt.NDArray[np.int32],
    probabilities: npt.NDArray[np.float32],
    first: int,
    last: int,
    min_votes: int,
    by_votes: bool,
    limit: int,
    sorted: bool,
) -> tuple[
    int,
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    npt.NDArray[np.float32],
]: ...
def least_loaded(
    best: npt.NDArray[np.int32],
    current: npt.NDArray[np.int32] | None,
    room: int,
    loads: npt.NDArray[np.int64],
    out: npt.NDArray[np.int32],
) -> tuple[int, int]: ...
def list_members(
    assignment: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32]
) -> bool: ...
def same_members(
    assignment: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32]
) -> bool: ...
def nearest_candidates(
    queries: npt.NDArray[np.float32],
    base: npt.NDArray[np.float32],
    offsets: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int32],
    first: int,
    last: int,
    metric: int,
    out_ids: npt.NDArray[np.int32],
    out_distances: npt.NDArray[np.float32],
) -> None: ...
def nearest_vectors(
    queries: npt.NDArray[np.float32],
    base: npt.NDArray[np.float32],
    leave_out: npt.NDArray[np.int32] | None,
    first: int,
    last: int,
    metric: int,
    out_ids: npt.NDArray[np.int32],
    out_distances: npt.NDArray[np.float32],
) -> None: ...
def best_columns(
    values: npt.NDArray[np.float32],
    out_columns: npt.NDArray[np.int32],
    out_values: npt.NDArray[np.float32],
) -> None: ...

class ClassTree:
    def __init__(self, child_starts: npt.NDArray[np.int64], leaf_classes: npt.NDArray[np.int32]) -> None: ...

class ClassFeatures:
    def __init__(
        self,
        dense: npt.NDArray[np.float32] | None,
        indptr: npt.NDArray[np.int64] | None,
        indices: npt.NDArray[np.int32] | None,
        values: npt.NDArray[np.float32] | None,
        n_features: int,
    ) -> None: ...

class ClassTrainer:
    def __init__(
        self,
        tree: ClassTree,
        weights: npt.NDArray[np.float32],
        by_feature: bool,
        squares: npt.NDArray[np.float32] | None,
        loss: int,
        n_candidates: int,
        n_noises: int,
        log_normalizer: float,
        decay: float,
        bias: float,
        seed: int,
    ) -> None: ...
    def train(
        self,
        features: ClassFeatures,
        order: npt.NDArray[np.int64],
        classes: npt.NDArray[np.int32],
        row_weights: npt.NDArray[np.float32] | None,
        probabilities: npt.NDArray[np.float64] | None,
        sums: npt.NDArray[np.float64] | None,
        guide: npt.NDArray[np.int32] | None,
        rate: float,
        step: int,
    ) -> tuple[float, float, float]: ...

def rank_classes(
    tree: ClassTree,
    weights: npt.NDArray[np.float32],
    by_feature: bool,
    features: ClassFeatures,
    bias: float,
    first: int,
    last: int,
    beam: int,
    log_probabilities: bool,
    out_classes: npt.NDArray[np.int32],
    out_scores: npt.NDArray[np.float32],
    out_log_sums: npt.NDArray[np.float32] | None,
) -> None: ...
def score_class_edges(
    weights: npt.NDArray[np.float32],
    by_feature: bool,
    features: ClassFeatures,
    bias: float,
    first: int,
    last: int,
    out: npt.NDArray[np.float32],
) -> None: ...
