"""What the columns of a fitted TF-IDF vectoriser are: its terms and their weights."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan.errors import NotFittedError, ParameterError
from sylvan.text.frame_output import FrameOutput
from sylvan.text.phrases import Phrases
from sylvan.text.terms import Terms

Analyzer = Literal["word", "char", "char_wb"]


class TfidfColumns(FrameOutput):
    """Base of TfidfVectorizer, once it is fitted."""

    ngrams: Any
    analyzer: Analyzer
    phrase_weight: float | None
    phrase_min_df: int | None
    _idf: npt.NDArray[np.float32] | None
    _chosen: Phrases  # where ``ngrams`` is "auto"

    def _fitted_terms(self) -> Terms:
        terms: Terms | None = getattr(self, "_terms", None)
        if terms is None:
            raise NotFittedError(
                f"This {type(self).__name__} is not fitted yet: call fit or fit_transform before transform."
            )
        return terms

    @property
    def ngrams_(self) -> tuple[int, int]:
        """Shortest and longest n-gram; those that were chosen where ``ngrams`` is "auto"."""
        self._fitted_terms()
        return self._chosen.ngrams if isinstance(self.ngrams, str) else self.ngrams

    def _chosen_phrases(self) -> Phrases:
        """What is counted beside words: what was chosen, or the parameters say."""
        if isinstance(self.ngrams, str):
            return self._chosen
        weight = 1.0 if self.phrase_weight is None else float(self.phrase_weight)
        return Phrases(self.ngrams, weight, 1 if self.phrase_min_df is None else int(self.phrase_min_df))

    def choice(self) -> str:
        """What ``ngrams="auto"`` took, in a sentence."""
        if self.ngrams_ == (1, 1):
            return "The texts are long: words are counted (--ngrams 1,1)."
        return (
            "The texts are short: words and, at half their weight, pairs of words are counted "
            f"({', '.join(f'{name}={value}' for name, value in self._chosen.parameters().items())})."
        )

    @property
    def n_terms_(self) -> int:
        """Number of terms, which is the number of columns."""
        return len(self._fitted_terms())

    @property
    def idf_(self) -> npt.NDArray[np.float32]:
        """Inverse document frequency of each column; all ones when ``use_idf`` was False."""
        terms = self._fitted_terms()
        return np.ones(len(terms), dtype=np.float32) if self._idf is None else self._idf

    def phrases(self) -> npt.NDArray[np.bool_]:
        """Which columns are terms of several words, shape (n_terms,)."""
        terms = self._fitted_terms()
        return terms.phrases() if self.analyzer == "word" else np.zeros(len(terms), dtype=bool)

    def term(self, column: int) -> str:
        """The term of a column, without building the whole vocabulary."""
        terms = self._fitted_terms()
        if not 0 <= column < len(terms):
            raise ParameterError(f"The 'column' of a term must be an int in [0, {len(terms)}). Got {column!r} instead.")
        return terms[column]

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Each term's column."""
        return {term: column for column, term in enumerate(self._fitted_terms().decode())}

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The terms in the order of the columns, shape (n_terms,); the argument is for scikit-learn."""
        return np.array(self._fitted_terms().decode(), dtype=object)
