"""From strings to strings: subject headings for books, learned from Project Gutenberg's catalogue.

Run it with ``python examples/tag_books.py``; it takes a few seconds.
"""

from __future__ import annotations

import tempfile

import sylvan
from sylvan import TextModel, TfidfVectorizer, XRLinear, data, metrics

train, test = data.load_sample()  # titles with authors, and lists of headings
tagger = TextModel(TfidfVectorizer(ngrams=(1, 2), sublinear_tf=True), XRLinear(beam=10))
tagger.fit(train.texts, train.labels)

with tempfile.TemporaryDirectory() as folder:
    tagger.save(folder)
    tagger = sylvan.load(folder, mmap=False)  # mmap=True, the default, would need the files to stay

    for title, headings in zip(test.texts[:5], tagger.rank(test.texts[:5], k=3).names, strict=True):
        print(f"{title}\n    {'; '.join(headings)}")

    top = tagger.rank(test.texts, k=5)
    truth = tagger.vocabulary_.encode(test.labels, unknown="ignore")
    for k, value in metrics.precision(truth, top, at=(1, 3, 5)).items():
        print(f"P@{k} {100 * value:.1f}")
