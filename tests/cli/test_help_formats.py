"""The help of the verbs that read texts names the formats that they read."""

import pytest
from click.testing import CliRunner

from sylvan.cli.app import cli


@pytest.mark.parametrize("verb", [("train", "xr-linear"), ("train", "neighbors"), ("train", "beam-tree"), ("predict",)])
def test_the_help_names_the_formats_of_texts(verb):
    answer = CliRunner().invoke(cli, [*verb, "--help"])
    assert answer.exit_code == 0
    introduction = answer.output.split("Examples:")[0]
    for name in ("JSONL", "CSV", "TSV", "fastText", "PECOS", "Annif", "Parquet"):
        assert name in introduction, f"{name} is missing"
