"""What the simulation of a cluster is told of a training is what the Ray runner does."""

from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import XRLinear, data
from sylvan.runtime.jobs import using

recorded = pytest.importorskip("benchmarks.cluster.recorded", reason="needs the benchmarks beside the package")


@pytest.mark.parametrize("where", ["memory", "parts"])
def test_what_is_recorded_is_what_the_runner_sends(where: str, tmp_path: Path, cluster: Any) -> None:
    from benchmarks.common import synthetic

    made = synthetic.generate("synthetic-900x400")
    given: tuple[Any, Any] = (made["X.trn"], made["Y.trn"])
    if where == "parts":
        data.save_parts(str(tmp_path / "parts"), *given, rows_per_part=100)
        given = data.open_parts(str(tmp_path / "parts"))
    with sylvan.distributed.ray() as runner:
        XRLinear(n_jobs=1).fit(*given)
        sent = [(phase.n_jobs, phase.bytes_shared, phase.bytes_sent) for phase in runner.phases]
    if where == "parts":
        given = data.open_parts(str(tmp_path / "parts"))  # anew: what was read once isn't read again
    recorder = recorded.Recorder(elsewhere=True)
    with using(recorder):
        XRLinear(n_jobs=1).fit(*given)
    lists = [step for step in recorder.steps if step.kind == "list"]
    own = [(len(step.jobs), step.shared_bytes, sum(job.sent_bytes for job in step.jobs)) for step in lists]
    assert own == sent
