"""The only importer of the native module: everything else asks for its kernels here."""

from sylvan._native import *  # noqa: F403
