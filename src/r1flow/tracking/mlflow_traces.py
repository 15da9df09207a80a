"""Completions as MLflow's traces: what a model was asked and what it wrote, with a span for each turn and each tool.

    {"question": "What is 2 + 3?", "completion": "<think>…", "correct": True, "answer": "5", "gold": "5"}

becomes a trace of this question and this completion, in the session of its question; `correct` is feedback with the
reason "its answer is 5", and 5 is what was expected. So are the rewards and the advantage of a training's completion.
How many, says the key `traces` of the configuration; delivery.py sends them. A trace's id derives from its run, its row
and the row's place, so one that is sent twice is there once. A table says nothing of how long a turn took, so all of a
trace's spans have the time at which its row was written.
"""

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mlflow.entities import (
    AssessmentSource,
    Expectation,
    Feedback,
    Span,
    SpanType,
    TraceInfo,
    TraceLocation,
    TraceState,
)

from r1flow.core.template import RESULT_CLOSE, RESULT_OPEN, TOOL_CLOSE, TOOL_OPEN, split_at_results
from r1flow.tracking.views import code

ASKED = ("question", "prompt")  # the columns that may hold what a model was asked
NO_SCORES = ("step",)  # a number, but no opinion of the completion
PREVIEW = 1000  # characters of a question or a completion in the list of traces
GRADER = AssessmentSource("CODE", "r1flow")
LABEL = AssessmentSource("HUMAN", "the row's answer")


def trace_of(
    row: Mapping[str, Any], run: str, experiment: str, name: str, time_ms: int
) -> tuple[TraceInfo, list[Span]]:
    """A row of a table as a trace; `run` and `experiment` are MLflow's ids, `name` is unique within the run."""
    asked = storable(next((str(row[column]) for column in ASKED if column in row), ""))
    said, digest = storable(str(row.get("completion"))), digest_of(f"{run}/{name}")
    trace_id, steps = f"tr-{digest[:32]}", steps_in(asked, said)
    info = TraceInfo(
        trace_id,
        TraceLocation.from_experiment_id(experiment),
        time_ms,
        TraceState.OK,
        request_preview=asked[:PREVIEW],
        response_preview=said[:PREVIEW],
        execution_duration=0,
        trace_metadata={
            "mlflow.sourceRun": run,
            "mlflow.trace.session": digest_of(asked)[:16],
            "mlflow.traceInputs": json.dumps(raw(asked)),
            "mlflow.traceOutputs": json.dumps(raw(said)),
        },
        tags={"mlflow.traceName": str(row.get("task") or "completion")},
        assessments=assessments_of(row, digest),
    )
    kind = SpanType.AGENT if steps else SpanType.LLM
    spans = [span_of(trace_id, digest, "completion", kind, asked, said, time_ms, None)]
    for number, (kind, label, given, told) in enumerate(steps):
        spans.append(span_of(trace_id, digest_of(f"{digest}/{number}"), label, kind, given, told, time_ms, digest))
    return info, spans


def assessments_of(row: Mapping[str, Any], digest: str) -> list[Feedback | Expectation]:
    """The right answer as an expectation, and as feedback whether it is right, its rewards and its advantage."""
    found: list[Feedback | Expectation] = []
    if row.get("gold") is not None:
        found.append(Expectation("gold", storable(str(row["gold"])), LABEL))
    reason = None if row.get("answer") is None else f"its answer is {code(storable(str(row['answer'])))}"
    for column, value in row.items():
        if isinstance(value, bool | int | float) and math.isfinite(value) and column not in NO_SCORES:
            found.append(Feedback(column, value, source=GRADER, rationale=reason if column == "correct" else None))
    for assessment in found:
        assessment.assessment_id = f"a-{digest_of(f'{digest}/{assessment.name}')[:32]}"
    return found


def steps_in(asked: str, completion: str) -> list[tuple[str, str, str, str]]:
    """Kind, name, input and output of each turn and each tool call; none for a completion without tools."""
    pieces, found = split_at_results(completion), []
    if len(pieces) < 2:
        return []
    heard = asked  # what the next turn goes on from
    for text, is_result in pieces:
        if is_result:
            call, heard = found[-1][3].rpartition(TOOL_OPEN)[2], text[len(RESULT_OPEN) : -len(RESULT_CLOSE)]
            call = call.partition(TOOL_CLOSE)[0].strip()
            name = call.partition(" ")[0]  # left out where there is only one tool
            found.append((SpanType.TOOL, name if name.isidentifier() else "tool", call, heard))
        else:
            found.append((SpanType.LLM, "turn", heard, text))
    return found


def span_of(
    trace_id: str, digest: str, name: str, kind: str, given: str, told: str, time_ms: int, parent: str | None
) -> Span:
    attributes = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": kind,
        "mlflow.spanInputs": raw(given),
        "mlflow.spanOutputs": raw(told),
    }
    return Span.from_dict(
        {
            "name": name,
            "trace_id": base64_of(trace_id.removeprefix("tr-")),
            "span_id": base64_of(digest[:16]),
            "parent_span_id": base64_of(parent[:16]) if parent else None,
            "start_time_unix_nano": time_ms * 1_000_000,
            "end_time_unix_nano": time_ms * 1_000_000,
            "status": {"code": "OK"},
            "events": [],
            "attributes": {key: json.dumps(value) for key, value in attributes.items()},
        }
    )


def raw(text: str) -> dict[str, dict[str, str]]:
    """What MLflow shows as the text, and not as Markdown."""
    return {"text": {"raw": text}}


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def base64_of(digits: str) -> str:
    """Hexadecimal digits as MLflow writes the ids of spans."""
    return b64encode(bytes.fromhex(digits)).decode()


def storable(text: str) -> str:
    """The text without what no database takes: half of a surrogate pair, and NUL."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
