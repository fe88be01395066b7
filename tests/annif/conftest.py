"""Annif as it is, in an environment of its own, and Sylvan beside it.

SYLVAN_ANNIF_PYTHON names the Python of that environment; it has to be of the version that Sylvan is built for here.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from kit.annif import MISSING, PYTHON, Annif

import sylvan

KERNELS = "nanobind_backend"  # what Sylvan's kernels need
TORCH = ("torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "safetensors", "nvidia", "triton")
PUNKT = """import sys
from nltk.tokenize.punkt import PunktParameters, save_punkt_params
save_punkt_params(PunktParameters(), dir=sys.argv[1])
import sylvan.kernels
"""


@pytest.fixture(scope="session")
def annif(tmp_path_factory: pytest.TempPathFactory) -> Annif:
    """Annif with ``ANNIF_CONFIG=sylvan.annif.Config``; NLTK's tables for sentences are made here, as they're empty."""
    if not PYTHON:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("annif")
    (folder / "path").mkdir()
    (folder / "path" / "sylvan").symlink_to(Path(sylvan.__file__).parent)  # and nothing else that lies beside it
    for name in (KERNELS, *TORCH):  # PyTorch for the backend that needs it, where the tests' own environment has it
        if (found := importlib.util.find_spec(name)) is not None and found.submodule_search_locations:
            (folder / "path" / name).symlink_to(found.submodule_search_locations[0])
    english = folder / "nltk" / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    environment = {
        **os.environ, "PYTHONPATH": str(folder / "path"), "NLTK_DATA": str(folder / "nltk"),
        "ANNIF_CONFIG": "sylvan.annif.Config", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    annif = Annif(folder, environment)
    if (done := annif.run("-c", PUNKT, str(english))).returncode:
        pytest.skip(f"Sylvan can't be imported beside Annif: {done.stderr[-300:]}")
    return annif
