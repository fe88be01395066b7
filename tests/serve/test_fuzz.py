"""Requests that schemathesis makes of /openapi.json, right and wrong ones: no 5xx, answers as the document has them.

SYLVAN_FUZZ_CASES says how many, SYLVAN_FUZZ_SEED which; without a seed they are the same every time.
"""

import copy
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from servers import ADMIN_KEY, Server, pytestmark, serving  # noqa: F401

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from schemathesis import GenerationMode, checks  # noqa: E402
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig  # noqa: E402
from schemathesis.core.failures import Failure, FailureGroup  # noqa: E402

N_CASES = int(os.environ.get("SYLVAN_FUZZ_CASES", "120"))
SEED = os.environ.get("SYLVAN_FUZZ_SEED")
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(first, numbers, tmp_path_factory) -> Iterator[Server]:
    """Of copies, as an admin may change them."""
    folder = tmp_path_factory.mktemp("fuzz")
    for one in (first, numbers):
        shutil.copytree(one.folder, folder / one.folder.name)
    with serving(folder, folder / "first", folder / "numbers", admin=True) as server:
        yield server


def pointed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what is there in place of any string, so that most requests get past 404."""
    document = copy.deepcopy(document)
    known = {"model": ["first", "numbers"], "file": ["page.css", "none.js", "../app.py"],
             "node": ["0/root", "0/0.1", "0/1.5", "7/9.9", "", "0"], "id": ["first", "numbers"],
             "project_id": ["first", "numbers"], "project": ["first", "numbers"]}  # fmt: skip
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                if parameter["name"] in known:
                    parameter["schema"] = {"type": "string", "enum": known[parameter["name"]]}
    label = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 60}, {"enum": ["Fiction", "none"]}]}
    labels = {"type": "array", "items": label, "maxItems": 5}
    useful: dict[str, Any] = {
        "allowed": labels, "denied": labels, "label": label, "branch": {"enum": ["0/0.1", "0/1.3", "1/1"]},
        "expected": {"enum": ["f1", "f2"]}, "tail": {"enum": ["none", "log"]},
    }  # fmt: skip
    for schema in document["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            if name in useful and "anyOf" in field:
                field["anyOf"] = [useful[name], *field["anyOf"]]
    whole = document["components"]["schemas"]["RankRequest"]
    inputs = ("text", "texts", "features")  # of which exactly one belongs into a request
    kinds = [whole]
    for name in inputs:
        rules = (
            {"k", "threshold", "beam", "tail", "explain"} if name == "texts" else {"threshold", "expected", "precision"}
        )
        fields = {key: each for key, each in whole["properties"].items() if key not in {*inputs, *rules} - {name}}
        fields[name] = next(each for each in fields[name]["anyOf"] if each != {"type": "null"})
        kinds.append({**whole, "properties": fields, "required": [name]})
    document["components"]["schemas"]["RankRequest"] = {"anyOf": kinds}
    return document


def test_the_document_describes_what_is_there(server):
    document = server.ask("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.1") and document["info"]["title"]
    of_model = {"rank": "post", "explain": "post", "labels": "get", "tree": "get", "beam": "post", "search": "post",
                "update": "post", "reload": "post"}  # fmt: skip
    promised = {f"/v1/models/{{model}}/{name}": method for name, method in of_model.items()}
    health = ("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready")
    promised |= dict.fromkeys(("/v1/models", "/v1/models/{model}", "/metrics", *health), "get")
    for path, method in promised.items():
        assert method in document["paths"].get(path, {}), path
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    schema = schemathesis.openapi.from_dict(document)
    assert sum(1 for one in schema.get_all_operations() if one.ok()) == len(names)


def test_no_request_that_the_document_suggests_fails(server):
    document = pointed(server.ask("GET", "/openapi.json").json)
    checks.load_all_checks()
    generation = GenerationConfig(with_security_parameters=False, deterministic=SEED is None)
    config = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=generation)))
    schema = schemathesis.openapi.from_dict(document, config=config)
    operations = [result.ok() for result in schema.get_all_operations()]
    weights = {operation.label: 5 if operation.body else 1 for operation in operations}
    share = N_CASES / (2 * sum(weights.values()))
    faults: dict[str, list[str]] = {}
    asked: Counter[int] = Counter()
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            run(operation, mode, max(1, round(share * weights[operation.label])), server, faults, asked)
    assert server.process.poll() is None and "Traceback" not in server.errors, server.errors[-4000:]
    assert not faults, "\n\n".join(f"{name}: {len(each)} times, such as\n{each[0]}" for name, each in faults.items())
    assert sum(asked.values()) >= 0.8 * N_CASES, asked
    assert asked[200] > 0.1 * sum(asked.values()), asked
    assert server.ask("POST", "/v1/models/first/rank", {"text": "whales"}, ADMIN).status == 200


def run(operation: Any, mode: Any, n: int, server: Server, faults: dict[str, list[str]], asked: Counter[int]) -> None:
    """Some requests of one kind; what is wrong is noted, and the next one is made."""

    def check(case: Any) -> None:
        response = case.call(base_url=f"http://127.0.0.1:{server.port}", headers=ADMIN, timeout=60)
        asked[response.status_code] += 1
        try:
            case.validate_response(response, checks=[checks.CHECKS.get_one(name) for name in CHECKS], headers=ADMIN)
        except (Failure, FailureGroup) as error:
            found = "; ".join(str(each) for each in getattr(error, "exceptions", [error]))
            request = response.request
            faults.setdefault(f"{operation.label} {mode.value}", []).append(
                f"{found}\n{request.method} {request.url} {request.body!r:.1500}\n"
                f"{response.status_code} {response.text:.1000}"
            )

    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except Exception:  # there is nothing to get wrong
        return
    quiet = list(HealthCheck)
    test = settings(max_examples=n, derandomize=SEED is None, database=None, deadline=None, phases=[Phase.generate],
                    suppress_health_check=quiet)(given(case=strategy)(check))  # fmt: skip
    if SEED is not None:
        test = seed(int(SEED))(test)
    try:
        test()
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "Skipped"):
            raise
