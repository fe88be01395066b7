"""How a TF-IDF vectoriser reads texts, by its parameters: what is a term, and what words are counted as."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal, TypeVar, get_args

from sylvan import store
from sylvan.errors import ModelError, OtherReleaseWarning, ParameterError
from sylvan.text.characters import RULES, character_table
from sylvan.text.columns import Analyzer, TfidfColumns
from sylvan.text.constraints import AUTO
from sylvan.text.counting import Scan
from sylvan.text.documents import MOST_CHARACTERS, as_documents
from sylvan.text.phrases import WORDS, Phrases, chosen_phrases
from sylvan.text.word_forms import WordForms, forms_of_language

Cjk = Literal["word", "bigrams", "chars"]
_ANALYZERS, _CJK = get_args(Analyzer), get_args(Cjk)  # asked for with every call
_PHRASES = ("phrase_weight", "phrase_min_df")
_FORMS = ("stem", "lemmatize")
_FORMS_BY = "forms_by"

_Self = TypeVar("_Self", bound="TfidfReading")


class TfidfReading(TfidfColumns):
    """Base of TfidfVectorizer, whose parameters it reads."""

    lowercase: bool
    min_token_length: int
    cjk: Cjk
    stem: str | None
    lemmatize: str | None
    _forms_by: str | None = None  # the library, and its release, by which words were counted in fit
    _agreed: str | None = None  # the library that has been compared with that
    _rules: int = RULES  # what a word is, as of the release that fitted this

    @property
    def counts_forms(self) -> bool:
        """Whether words are counted as their stems or lemmas."""
        return self.stem is not None or self.lemmatize is not None

    @property
    def library_(self) -> str | None:
        """The library, and its release, that said in fit what words are counted as; None where none was asked."""
        return self._forms_by

    def _phrases(self, blocks: Iterable[tuple[str, ...]]) -> tuple[Phrases, Iterable[tuple[str, ...]]]:
        """What is counted beside words, and the documents, by which ``"auto"`` is chosen."""
        chosen = WORDS if isinstance(self.ngrams, str) else Phrases((int(self.ngrams[0]), int(self.ngrams[1])))
        if isinstance(self.ngrams, str) and self.analyzer == "word":
            chosen, blocks = chosen_phrases(blocks, self._scan((1, 1), None))
        if chosen.ngrams[1] == 1:  # there are no phrases, whatever is said of them
            return chosen, blocks
        if self.phrase_weight is not None:
            chosen = chosen._replace(weight=float(self.phrase_weight))
        if self.phrase_min_df is not None:
            chosen = chosen._replace(min_df=int(self.phrase_min_df))
        return chosen, blocks

    def resolved(self: _Self, texts: Iterable[str]) -> _Self:
        """One that isn't fitted, with what ``ngrams="auto"`` is for these texts in its place.

        Examples
        --------
        >>> from sylvan.text import TfidfVectorizer
        >>> TfidfVectorizer(ngrams="auto").resolved(["whales at sea", "bread and cakes"])
        TfidfVectorizer(ngrams=(1, 2), phrase_weight=0.5, phrase_min_df=2)
        """
        self.check_params()
        self._own_forms()  # what is read once and for all is in memory from now on
        params = self.get_params()
        if isinstance(self.ngrams, str):
            params |= self._phrases([as_documents(texts)])[0].parameters()
        return type(self)(**params)

    def _check_together(self) -> None:
        """Refuse parameters that contradict each other before any text is read."""
        given = [name for name in _PHRASES if getattr(self, name) is not None]
        why = None
        if self.analyzer != "word":
            why = f"analyzer={self.analyzer!r} has none: it counts characters"
        elif self.ngrams != AUTO and self.ngrams[1] == 1:
            why = f"ngrams={tuple(self.ngrams)} has none: allow pairs with ngrams=(1, 2)"
        if given and why:
            raise ParameterError(
                f"The {given[0]!r} parameter of {type(self).__name__} is for terms of several words, but {why}. "
                f"Got {getattr(self, given[0])!r}."
            )
        self._check_forms()

    def _check_forms(self) -> None:
        """Refuse stems and lemmas that contradict each other or the analyser."""
        owner = type(self).__name__
        forms = [name for name in _FORMS if getattr(self, name) is not None]
        if len(forms) > 1:
            raise ParameterError(
                f"A word of {owner} is counted as its stem or as its lemma: leave 'stem' or 'lemmatize' out. Got "
                f"{self.stem!r} and {self.lemmatize!r}."
            )
        if forms and self.analyzer != "word":
            raise ParameterError(
                f"The {forms[0]!r} parameter of {owner} is for words, but analyzer={self.analyzer!r} counts "
                f"characters. Got {getattr(self, forms[0])!r}."
            )

    def word_forms(self) -> WordForms | None:
        """What words are counted as: their stems or lemmas, or None for themselves.

        Raises
        ------
        ImportError
            When the library that knows them isn't installed, or doesn't know the language.
        """
        forms = self._own_forms()
        if forms is not None and self._forms_by is not None and self._agreed != forms.library:
            self._agreed = forms.library
            if not forms.agrees(self._forms_by):
                warnings.warn(
                    f"This model's words were counted by {self._forms_by}, and here they are by {forms.library}: some "
                    "may be other terms, and answers worse. Install the former, or train the model anew.",
                    OtherReleaseWarning,
                    stacklevel=2,
                )
        return forms

    def _own_forms(self) -> WordForms | None:
        return forms_of_language(self.stem, self.lemmatize, self.lowercase)

    def _scan(self, ngrams: tuple[int, int], forms: WordForms | None) -> Scan:
        shortest, longest = ngrams
        lowercase = self.lowercase and not (forms is not None and forms.by_case)  # whose forms are in lower case
        return Scan(
            character_table(lowercase, self._rules, keeps_unseen=forms is not None),  # which dictionaries know
            (
                _ANALYZERS.index(self.analyzer),
                _CJK.index(self.cjk),
                int(shortest),
                int(longest),
                min(int(self.min_token_length), MOST_CHARACTERS),
            ),
            forms,
        )

    def _forms_meta(self) -> dict[str, store.JSON]:
        """What a State says of the library, where there is one."""
        if not self.counts_forms:
            return {}
        forms = None if self._forms_by is not None else self._own_forms()
        return {_FORMS_BY: self._forms_by if forms is None else forms.library}

    def _take_forms_meta(self, state: store.State) -> None:
        """Take note of what a loaded State says of the library."""
        if not self.counts_forms:
            return
        said: Any = state.meta.get(_FORMS_BY)
        if not isinstance(said, str) or not said:
            raise ModelError(
                f"{state.where or 'The model'!r} is damaged: it doesn't say which library gave the forms of its words."
            )
        self._forms_by = said
