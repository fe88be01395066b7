"""The pages of docs/results/: which section stands on which, and the links between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["INDEX", "anchor", "pages"]

INDEX = "index"
HEADING = re.compile(r"^(#{2,3}) (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(#([\w-]+)\)")


@dataclass(frozen=True)
class Topic:
    """A page: its file, its title, what it is about, and the headings of its sections."""

    name: str
    title: str
    words: str
    headings: tuple[str, ...] = ()


TOPICS = (
    Topic(
        "libraries",
        "Beside other libraries",
        "Training, ranking, sizes, memory and precision of `XRLinear` beside libpecos and omikuji, a section for each "
        "data set; the processor time of napkinXC and LibMultiLabel; and models of others that were imported.",
        ("napkinXC and LibMultiLabel", "Imported models"),
    ),
    Topic(
        "xr-linear",
        "Choices of XRLinear",
        "What parameters gain and cost, one choice at a time.",
        ("Which defaults", "As the paper has it", "Branching, trees and clusters", "Choices of XR-Linear",
         "Labels in several clusters", "Clusters without rows", "Vectorisers", "Stems and lemmas", "Parts of words",
         "Constraints", "Baskets", "Finding a row of weights", "Plans", "Very many labels"),
    ),
    Topic(
        "beyond",
        "Smaller, better and calibrated models",
        "Labels' names as rows, compression, neighbours, static vectors, ensembles, presets, rerankers, tuning and "
        "probabilities.",
        ("Names of labels as rows", "Smaller models", "Neighbours and rare labels", "Static vectors", "Ensembles",
         "Presets of texts", "Rerankers", "Tuning to a budget", "Probabilities and stopping rules"),
    ),
    Topic(
        "updates",
        "Labels and rows that come later",
        "Updates beside trainings anew, and labels that have a text and no rows.",
        ("Updates", "Label texts", "New labels without rows", "Labels' words"),
    ),
    Topic("encoders", "Text encoders", "`XRTransformer` and `XTransformer` beside libpecos.", ("Encoders of texts",)),
    Topic("irli", "Learned partitions", "`IRLIIndex` and `IRLIClassifier`.", ("Learned partitions (IRLI)",)),
    Topic(
        "beam-tree",
        "One class per row",
        "`BeamTreeClassifier` beside a softmax over all classes and other ways to avoid it.",
        ("Candidates against noises over a tree",),
    ),
    Topic(
        "softmax",
        "Softmax over very many classes",
        "Samplers and losses in PyTorch: precision, and the time of a step.",
        ("Softmax over many classes", "Candidates against noises", "Output layer"),
    ),
    Topic("serving", "Serving and Annif", "Answers over HTTP, and backends of Annif.", ("Serving", "In Annif")),
    Topic(
        "clusters",
        "Several machines",
        "Trainings on a Ray cluster, and simulated ones of a thousand processes.",
        ("Clusters", "Scaling on paper"),
    ),
    Topic("wheels", "Wheels", "What an installation takes, and the kernels of the stable ABI.", ("Wheels",)),
    Topic("tests", "Faults that tests notice", "How many small faults the tests find.", ("Faults that tests notice",)),
)  # fmt: skip
OF_SETS = TOPICS[0]  # where sections stand that are named after a data set


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def pages(lines: list[str], intro: str, summary: str) -> dict[str, str]:
    """The text of each page by its name: ``lines`` are all sections, from the headings of the second level on."""
    parts = re.split(r"^(?=## )", "\n".join(lines), flags=re.MULTILINE)[1:]
    topics = {heading: topic for topic in TOPICS for heading in topic.headings}
    sections: dict[Topic, list[str]] = {topic: [] for topic in TOPICS}
    where: dict[str, str] = {}
    for part in parts:
        found = [heading for _, heading in HEADING.findall(part)]
        topic = topics.get(found[0], OF_SETS)
        sections[topic].append(part.strip("\n"))
        for heading in found:
            where.setdefault(anchor(heading), topic.name)
    texts = {
        topic.name: "\n\n".join([f"# {topic.title}", f"{topic.words} [How it was measured](index.md).", *own]) + "\n"
        for topic, own in sections.items()
        if own
    }
    texts[INDEX] = _index(texts, intro, summary)
    return {name: _linked(text, name, where) for name, text in texts.items()}


def _index(texts: dict[str, str], intro: str, summary: str) -> str:
    entries = [f"- [{topic.title}]({topic.name}.md): {topic.words}" for topic in TOPICS if topic.name in texts]
    picture = "![Precision by the time of training](../figures/presets.svg)"
    names = [topic.name for topic in TOPICS if topic.name in texts]
    contents = ["## Pages", "\n".join(entries), "\n".join([":::{toctree}", ":hidden:", "", *names, ":::"])]
    return "\n\n".join(["# Results", intro, picture, "## In short", summary, *contents]) + "\n"


def _linked(text: str, name: str, where: dict[str, str]) -> str:
    """Links to sections of other pages name the page; pictures and other documents lie one folder up."""

    def to(found: re.Match[str]) -> str:
        page = where.get(found[1], name)
        return found[0] if page == name else f"]({page}.md#{found[1]})"

    text = LINK.sub(to, text)
    return re.sub(r"\]\((figures/|background/|papers/)", r"](../\1", text)
