"""The estimators: each puts the three phases together."""

from sylvan.models.text import TextModel
from sylvan.models.xr_linear import XRLinear

__all__ = ["TextModel", "XRLinear"]
