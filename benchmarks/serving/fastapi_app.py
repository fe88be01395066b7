"""What a user would write today: FastAPI around libpecos, its vectoriser and its ranker in predict-only mode.

``MODEL=FOLDER uvicorn benchmarks.serving.fastapi_app:app`` has an endpoint that FastAPI calls in its pool of threads,
``benchmarks.serving.fastapi_app:app_async`` one that it calls in the event loop.
"""

import json
import os
from pathlib import Path

from fastapi import FastAPI
from pecos.utils.featurization.text.preprocess import Preprocessor
from pecos.xmc.xlinear.model import XLinearModel
from pydantic import BaseModel, Field

FOLDER = Path(os.environ["MODEL"])
LABELS = json.loads((FOLDER / "labels.json").read_text(encoding="utf-8"))
VECTORIZER = Preprocessor.load(str(FOLDER / "vectorizer"))
RANKER = XLinearModel.load(str(FOLDER / "ranker"), is_predict_only=True, weight_matrix_type="HASH_CHUNKED")


class Question(BaseModel):
    """A request."""

    text: str
    k: int = Field(default=10, ge=1, le=1000)


class Answer(BaseModel):
    """The best labels, best first."""

    labels: list[str]
    scores: list[float]


def ranked(question: Question) -> Answer:
    """The answer to one question."""
    features = VECTORIZER.predict([question.text], threads=1)
    found = RANKER.predict(features, only_topk=question.k, threads=1)
    order = (-found.data).argsort(kind="stable")
    return Answer(labels=[LABELS[at] for at in found.indices[order]], scores=found.data[order].tolist())


app = FastAPI()
app_async = FastAPI()


@app.post("/rank")
def rank(question: Question) -> Answer:
    """In a thread."""
    return ranked(question)


@app_async.post("/rank")
async def rank_async(question: Question) -> Answer:
    """In the event loop."""
    return ranked(question)


@app.get("/ready")
@app_async.get("/ready")
def ready() -> dict[str, bool]:
    """Whether the model is there."""
    return {"ready": True}
