"""Texts to numbers: a TF-IDF vectoriser over words or characters, and static vectors."""

from __future__ import annotations

from sylvan.text.static_encoder import StaticEncoder
from sylvan.text.tfidf import TfidfVectorizer

__all__ = ["StaticEncoder", "TfidfVectorizer"]
