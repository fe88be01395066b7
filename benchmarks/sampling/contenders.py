"""Who stands in the tables of ``sampled_softmax.py``, and what the papers report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.sampling.large_text import PHRASES

# What can be set for all of a table alike.
RATES = ("learning_rate", "table_learning_rate", "embedding_learning_rate")
CHANGES = ("optimizer", *RATES, "batch_size", "dropout", "clip_norm", "device")
NETWORK = ("hidden", "embedding", "n_layers", "own_rate")  # what a table's trainings have of their own
UNWEIGHTED: dict[str, Any] = {"class_weights": None}  # the paper's k-means
ALL = "sampled-softmax"  # the loss whose logits are all corrected
EVERY_STEP: dict[str, int] = {"every": 1, "early_every": 1, "early_steps": 0}
EVERY_EPOCH: dict[str, int] = {"every": 1327, "early_every": 1327, "early_steps": 0}  # on Penn Treebank


@dataclass(frozen=True)
class Contender:
    """One way of training the same network.

    ``n_samples`` None takes the table's own. The loss is Eq. (1) unless it is named; in rows called "both corrected"
    the target's logit is corrected too. ``paper`` is the row of the paper's tables that it reruns, if any (the
    authors' code corrects both, but for Sphere and RFF). A row
    with ``rate_of`` isn't searched for a learning rate of its own but has that row's. Codewords that are parameters
    have the rate of the encoder's layers, 0.002 in language models, unless ``codeword_rate`` is theirs.
    """

    title: str
    sampler: str = "uniform"
    loss: str = "sampled-softmax-eq1"
    n_samples: int | None = None
    shared: bool = False
    sampler_parameters: dict[str, Any] = field(default_factory=dict)
    loss_parameters: dict[str, Any] = field(default_factory=dict)
    refresh: dict[str, int] | None = None
    paper: str | None = None
    rate_of: str | None = None
    codeword_rate: float | None = None


CONTENDERS: dict[str, Contender] = {
    "full": Contender("full softmax, chunked", loss="full", paper="Full"),
    "softmax": Contender("draws from the exact softmax", "softmax", refresh=EVERY_STEP),
    "uniform": Contender("uniform", "uniform"),
    "unigram": Contender("unigram", "unigram"),
    "lsh": Contender("LSH", "lsh"),
    "sphere": Contender("Sphere", "sphere", paper="Sphere"),
    "rff": Contender("RFF", "rff", paper="RFF"),
    "midx-pq": Contender("MIDX-pq", "midx-pq", sampler_parameters=UNWEIGHTED),
    "midx-rq": Contender("MIDX-rq", "midx-rq", sampler_parameters=UNWEIGHTED),
    "midx-pq-weighted": Contender("MIDX-pq, weighted by √frequency", "midx-pq"),
    "midx-rq-weighted": Contender("MIDX-rq, weighted by √frequency", "midx-rq"),
    "midx-learned-pq": Contender("MIDX-pq, weighted, learned", "midx-learned-pq"),
    "midx-learned-rq": Contender("MIDX-rq, weighted, learned", "midx-learned-rq"),
    "midx-joint-pq": Contender("MIDX-pq, weighted, learned jointly", "midx-joint-pq"),
    "midx-joint-rq": Contender("MIDX-rq, weighted, learned jointly", "midx-joint-rq"),
    "midx-aware-pq": Contender("MIDX-pq, query-aware", "midx-aware-pq"),
    "midx-aware-rq": Contender("MIDX-rq, query-aware", "midx-aware-rq"),
    "midx-aware-learned-rq": Contender(
        "MIDX-rq, query-aware and learned", "midx-aware-rq", sampler_parameters={"learnable": True}
    ),
    "uniform-all": Contender("uniform, both corrected", "uniform", ALL, paper="Uniform"),
    "unigram-all": Contender("unigram, both corrected", "unigram", ALL, paper="Unigram"),
    "lsh-all": Contender("LSH, both corrected", "lsh", ALL, paper="LSH"),
    "sphere-all": Contender("Sphere, both corrected", "sphere", ALL, rate_of="uniform-all"),
    "rff-all": Contender("RFF, both corrected", "rff", ALL, rate_of="uniform-all"),
    "midx-pq-all": Contender(
        "MIDX-pq, both corrected", "midx-pq", ALL, sampler_parameters=UNWEIGHTED, paper="MIDX-pq"
    ),
    "midx-rq-all": Contender(
        "MIDX-rq, both corrected", "midx-rq", ALL, sampler_parameters=UNWEIGHTED, paper="MIDX-rq"
    ),
    "midx-rq-weighted-all": Contender(
        "MIDX-rq, weighted by √frequency, both corrected", "midx-rq", ALL, rate_of="midx-rq-all"
    ),
    "midx-learned-rq-all": Contender(
        "MIDX-rq, weighted, learned, both corrected", "midx-learned-rq", ALL, rate_of="midx-rq-all"
    ),
    "midx-aware-rq-all": Contender("MIDX-rq, query-aware, both corrected", "midx-aware-rq", ALL),
    "midx-rq-all-once": Contender(
        "MIDX-rq, both corrected, refreshed once an epoch", "midx-rq", ALL, sampler_parameters=UNWEIGHTED,
        refresh=EVERY_EPOCH, rate_of="midx-rq-all",
    ),
    "midx-joint-rq-all": Contender(
        "MIDX-rq, learned jointly, both corrected", "midx-joint-rq", ALL, sampler_parameters=UNWEIGHTED,
        rate_of="midx-rq-all",
    ),
    "midx-joint-rq-weighted-all": Contender(
        "MIDX-rq, weighted, learned jointly, both corrected", "midx-joint-rq", ALL, rate_of="midx-rq-all"
    ),
    "midx-gumbel-rq-all": Contender(
        "MIDX-rq, learned jointly as in the authors' code, both corrected", "midx-gumbel-rq", ALL,
        paper="MIDX-Learn-rq", rate_of="midx-rq-all",
    ),
    "midx-gumbel-rq-all-fast": Contender(
        "the same, codewords at a rate of 0.05", "midx-gumbel-rq", ALL, paper="MIDX-Learn-rq", rate_of="midx-rq-all",
        codeword_rate=0.05,
    ),
    **{
        f"head-{size}-{tail}": Contender(
            f"head of {size:,} exactly, {words} tail", tail, "head-and-tail", loss_parameters={"n_head": size}
        )
        for size in (500, 1000, 2000)
        for tail, words in (("unigram", "unigram"), ("midx-rq", "MIDX-rq"))
    },
    "head-1000-midx-aware-rq": Contender(
        "head of 1,000 exactly, query-aware MIDX-rq tail", "midx-aware-rq", "head-and-tail",
        loss_parameters={"n_head": 1000},
    ),
    "unigram-500-shared": Contender("500 unigram, shared by the batch", "unigram", n_samples=500, shared=True),
    "midx-rq-500-shared": Contender("500 weighted MIDX-rq, shared by the batch", "midx-rq", n_samples=500, shared=True),
    "unigram-1000-shared-all": Contender(
        "1,000 unigram, shared by the batch, both corrected", "unigram", ALL, n_samples=1000, shared=True,
        rate_of="unigram-all",
    ),
    "midx-rq-1000-shared-all": Contender(
        "1,000 weighted MIDX-rq, shared by the batch, both corrected", "midx-rq", ALL, n_samples=1000, shared=True,
        rate_of="midx-rq-all",
    ),
    "head-1000-unigram-shared": Contender(
        "head of 1,000 exactly, 1,000 unigram of the tail shared by the batch", "unigram", "head-and-tail",
        n_samples=1000, shared=True, loss_parameters={"n_head": 1000}, rate_of="unigram-all",
    ),
    "head-1000-midx-rq-shared": Contender(
        "head of 1,000 exactly, 1,000 weighted MIDX-rq of the tail shared by the batch", "midx-rq", "head-and-tail",
        n_samples=1000, shared=True, loss_parameters={"n_head": 1000},
    ),
    "adaptive": Contender("adaptive softmax (PyTorch's)", loss="adaptive"),
    "nce-40": Contender("NCE, 40 unigram", "unigram", "nce", n_samples=40),
    "blackout-40": Contender(
        "BlackOut, 40 unigram^0.4", "unigram", "blackout", n_samples=40, sampler_parameters={"power": 0.4}
    ),
    "cane-40": Contender("CANE, 40 candidates, 1 uniform noise", "uniform", "cane", n_samples=40),
    "cane-20-20": Contender(
        "CANE, 20 candidates, 20 unigram noises in one sum", "unigram", "cane", n_samples=20,
        loss_parameters={"n_noises": 20, "together": True},
    ),
    "cane-tree-40": Contender(
        "CANE, 40 candidates of a Beam Tree, 1 uniform noise", "uniform", "beam-tree", n_samples=40,
        loss_parameters={"tree": "kmeans"},
    ),
    "cane-tree-40-unigram": Contender(
        "CANE, 40 candidates of a Beam Tree, 1 unigram noise", "unigram", "beam-tree", n_samples=40,
        loss_parameters={"tree": "kmeans"},
    ),
    "cane-tree-20-20": Contender(
        "CANE, 20 candidates of a Beam Tree, 20 unigram noises in one sum", "unigram", "beam-tree", n_samples=20,
        loss_parameters={"tree": "kmeans", "n_noises": 20, "together": True},
    ),
}  # fmt: skip
RIVALS = ("full", "softmax", "uniform", "unigram", "lsh", "sphere", "rff")
INDEXED = ("midx-pq", "midx-rq", "midx-pq-weighted", "midx-rq-weighted", "midx-aware-pq", "midx-aware-rq")
LEARNED = ("midx-learned-pq", "midx-learned-rq", "midx-joint-pq", "midx-joint-rq", "midx-aware-learned-rq")
CORRECTED = (
    "uniform-all", "unigram-all", "lsh-all", "sphere-all", "rff-all", "midx-pq-all", "midx-rq-all",
    "midx-rq-weighted-all", "midx-learned-rq-all", "midx-aware-rq-all", "midx-rq-all-once", "midx-joint-rq-all",
    "midx-joint-rq-weighted-all", "midx-gumbel-rq-all", "midx-gumbel-rq-all-fast",
)  # fmt: skip
SIMPLE = ("uniform-all", "unigram-all", "midx-rq-all", "midx-aware-rq-all")  # the corrected rows of the smaller tables
HEADED = ("head-1000-unigram", "head-500-midx-rq", "head-1000-midx-aware-rq")
HEADS_TRIED = tuple(f"head-{size}-{tail}" for size in (500, 1000, 2000) for tail in ("unigram", "midx-rq"))
SHARED = ("unigram-500-shared", "midx-rq-500-shared")
# What costs least a step.
BY_THE_SECOND = ("unigram-1000-shared-all", "midx-rq-1000-shared-all", "head-1000-unigram-shared", "adaptive")
LOSSES = ("nce-40", "blackout-40", "cane-40", "cane-20-20")

WHOLE = "-whole"  # sets of interactions with all users and items, also those with fewer than ten interactions

# What each table or figure is made of: contenders, sets, models, and what is varied.
PLANS: dict[str, dict[str, Any]] = {
    "table4": {
        "task": "language-model", "sets": ("ptb",), "models": ("lstm",),
        "contenders": (*RIVALS, *INDEXED, *LEARNED, *CORRECTED, *HEADED, *SHARED, *BY_THE_SECOND, *LOSSES),
    },
    "table5": {
        "task": "language-model", "sets": ("ptb",), "models": ("lstm",),
        "contenders": ("full", "softmax", "uniform", "unigram", "lsh", "sphere", "rff", *INDEXED, *LEARNED, *CORRECTED),
    },
    "tablewords": {
        "task": "language-model", "sets": ("gutenberg-words",), "models": ("lstm",),
        "contenders": (
            "full", "nce-40", "unigram-all", "midx-rq-all", "midx-aware-rq-all", *HEADS_TRIED, HEADED[2],
            *BY_THE_SECOND,
        ),
    },
    "tablemany": {
        "task": "language-model", "sets": tuple(PHRASES), "models": ("lstm",),
        "network": {"hidden": 64, "embedding": 64, "n_layers": 1, "own_rate": True},
        "contenders": (*BY_THE_SECOND, "head-1000-midx-rq-shared", "midx-aware-rq-all"),
    },
    "table7": {
        "task": "sequential-recommendation", "sets": ("beauty" + WHOLE, "games" + WHOLE),
        "models": ("sasrec", "gru4rec"),
        "contenders": (*RIVALS, *INDEXED, *SIMPLE, *HEADED, *SHARED, *BY_THE_SECOND[:3]),
    },
    "table9": {
        "task": "extreme-classification", "sets": ("eurlex57k", "gutenberg"), "models": ("linear",),
        "contenders": (*RIVALS, *INDEXED, *SIMPLE, *HEADED, *SHARED, *BY_THE_SECOND[:3]),
    },
    "samples": {
        "task": "language-model", "sets": ("ptb",), "models": ("lstm",),
        "contenders": ("full", *SIMPLE, "midx-pq-all", *HEADED),
        "varied": ("n_samples", (5, 10, 20, 50, 100)),
    },
    "codewords": {
        "task": "language-model", "sets": ("ptb",), "models": ("lstm",),
        "contenders": ("full", "midx-pq-all", "midx-rq-all", "midx-rq-weighted-all", "midx-aware-rq-all", *HEADED[1:]),
        "varied": ("codewords", (8, 16, 32, 64, 128)),
    },
}  # fmt: skip
N_SAMPLES = {"language-model": 20, "sequential-recommendation": 90, "extreme-classification": 1000}

# The papers' own figures. Chen et al. 2025 (arXiv 2501.08563), tables 4, 5, 7 and 9; up to 100 epochs.
TABLE4 = {  # perplexity on Penn Treebank: LSTM, Transformer
    "Full": (109.1965, 143.8422), "Uniform": (159.9701, 181.5720), "Unigram": (139.7837, 166.4322),
    "LSH": (145.8054, 167.9671), "Sphere": (143.2146, 179.2362), "RFF": (145.5703, 189.1259),
    "MIDX-pq": (121.5477, 149.6586), "MIDX-rq": (117.8317, 147.3405),
}  # fmt: skip
TABLE5 = {  # its KL loss, ln of the perplexity
    "MIDX-pq": (2.2421, 4.8003), "MIDX-rq": (1.5551, 4.7693),
    "MIDX-Learn-pq": (1.6625, 4.7320), "MIDX-Learn-rq": (1.2905, 4.7212),
}  # fmt: skip
TABLE7 = {  # Amazon-books, the set nearest to ours: N@10, N@50, R@10, R@50 for SASRec, then for GRU4Rec
    "Full": (0.0644, 0.0881, 0.1035, 0.2126, 0.0608, 0.0849, 0.0995, 0.2108),
    "Uniform": (0.0467, 0.0700, 0.0819, 0.1898, 0.0379, 0.0610, 0.0699, 0.1769),
    "Unigram": (0.0473, 0.0704, 0.0824, 0.1897, 0.0401, 0.0629, 0.0738, 0.1798),
    "LSH": (0.0497, 0.0736, 0.0857, 0.1963, 0.0440, 0.0670, 0.0793, 0.1859),
    "Sphere": (0.0549, 0.0788, 0.0934, 0.2038, 0.0549, 0.0794, 0.0949, 0.2081),
    "RFF": (0.0471, 0.0700, 0.0828, 0.1889, 0.0386, 0.0616, 0.0714, 0.1779),
    "MIDX-pq": (0.0608, 0.0846, 0.0998, 0.2096, 0.0530, 0.0771, 0.0924, 0.2041),
    "MIDX-rq": (0.0622, 0.0863, 0.1020, 0.2134, 0.0547, 0.0791, 0.0948, 0.2075),
}
TABLE9 = {  # AmazonCat-13K: P@1, P@3, P@5
    "Full": (0.8478, 0.7169, 0.5770), "Uniform": (0.7242, 0.6284, 0.5152), "Unigram": (0.8105, 0.6819, 0.5502),
    "LSH": (0.7936, 0.6704, 0.5405), "Sphere": (0.8176, 0.6950, 0.5602), "RFF": (0.7484, 0.6441, 0.5285),
    "MIDX-pq": (0.8352, 0.7055, 0.5652), "MIDX-rq": (0.8478, 0.7166, 0.5739),
}  # fmt: skip
