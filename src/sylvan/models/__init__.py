"""The estimators: each puts the three phases together."""

from sylvan.models.xr_linear import XRLinear

__all__ = ["XRLinear"]
