"""Texts to numbers: a TF-IDF vectoriser over words or characters."""

from __future__ import annotations

from sylvan.text.tfidf import TfidfVectorizer

__all__ = ["TfidfVectorizer"]
