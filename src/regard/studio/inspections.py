"""Inspect a model, describe the inspection as a message, and recompute its output under an intervention."""

import hashlib
import json
import math
import re
import time
from contextlib import nullcontext

from regard.contracts import AlignmentPanel, Around, AttentionSite, Axis, Inspection, Response
from regard.data.text import merge_bytes
from regard.serving import RefusedError, refusing
from regard.studio.inspection_cache import CachedInspection
from regard.studio.model_registry import RegisteredModel
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.inspections import (
    InspectionAxis,
    InspectionMessage,
    InspectionRequest,
    InspectionSite,
    TokenLabel,
)
from regard.studio.schema.models import GenerateAnswer, GeneratedToken, GenerateRequest, PredictAnswer, PredictRequest
from regard.studio.schema.numbers import Outcome
from regard.tasks import refuse_blank

MAX_NUMBERS = 128_000_000
"""Limit of the scores, weights, keys and values of one inspection."""
# the path up to the first part that ends with a number
LAYER = re.compile(r"^(.*?\d+)(?:\.|$)")


def inspection_id(model: RegisteredModel, request: InspectionRequest) -> str:
    """A hash of the request and the version of the model: the same request for the same weights has the same id."""
    # a fixed input ignores the text of the request, so it is not part of the id
    words = [] if model.fixed_input else [request.text, request.output]
    # as JSON, so that two different requests never give the same text
    # 24 hexadecimal digits, 96 bits: no two inspections share an id in practice
    return hashlib.sha256(json.dumps([model.name, model.version, *words]).encode()).hexdigest()[:24]


def make_inspection(model: RegisteredModel, request: InspectionRequest) -> CachedInspection:
    """Inspect an input; an error of the predictor becomes a RefusedError with its message."""
    predictor = model.activate()
    with refusing():
        # only errors of the input become a refusal; all others are defects of the server
        data = predictor.parse(request.text)
        inspection = predictor.inspect(data, request.output, max_numbers=MAX_NUMBERS)
    message = describe_inspection(inspection, model.name, inspection_id(model, request))
    return CachedInspection(message=message, model=model, inspection=inspection)


def describe_inspection(inspection: Inspection, model: str, name: str) -> InspectionMessage:
    """An inspection as a message."""
    alignment: AlignmentPanel | None = inspection.panel(AlignmentPanel)
    sites = [] if alignment is None else [describe_alignment(alignment)]
    per_token = inspection.seconds_per_token
    return InspectionMessage(
        id=name,
        model=model,
        input=inspection.input,
        output=inspection.output,
        forced=inspection.forced,
        log_prob=inspection.log_prob,
        num_dropped=inspection.num_dropped,
        drops_start=inspection.drops_start,
        axes=[describe_axis(axis) for axis in inspection.axes],
        sites=[*sites, *(describe_site(site) for site in inspection.sites)],
        panels=[panel.name for panel in inspection.panels],
        unknown=list(inspection.unknown),
        milliseconds=inspection.seconds * 1e3,
        milliseconds_per_token=None if per_token is None else per_token * 1e3,
    )


def describe_axis(axis: Axis) -> InspectionAxis:
    """An axis with its raw tokens and its labels of whole characters."""
    return InspectionAxis(
        name=axis.name,
        kind=axis.kind,
        title=LocalizedText.of(axis.title),
        tokens=list(axis.labels),
        texts=list(axis.texts),
        unknown=list(axis.unknown),
        # both types have the same fields
        labels=[TokenLabel(**vars(token)) for token in merge_bytes(axis.labels, axis.marks)],
        grid=None if axis.grid is None else list(axis.grid),
        is_stepwise=axis.is_stepwise,
    )


def describe_site(site: AttentionSite) -> InspectionSite:
    """A recorded attention."""
    return InspectionSite(
        path=site.path,
        layer=layer_of(site.path),
        heads=site.num_heads,
        queries=site.query_axis,
        keys=site.key_axis,
        score=site.score,
        align=site.alignment,
        is_causal=site.is_causal,
        is_stepwise=site.is_stepwise,
        has_scores=True,
    )


def describe_alignment(panel: AlignmentPanel) -> InspectionSite:
    """The alignment that the model reports, listed as a site without scores."""
    return InspectionSite(
        path=panel.name,
        layer="",
        heads=1,
        queries=panel.query_axis,
        keys=panel.key_axis,
        # the model computes this alignment itself, so its score is not recorded
        score=None,
        align=None,
        is_causal=False,
        is_stepwise=False,
        has_scores=False,
    )


def layer_of(path: str) -> str:
    """A module path up to its first number: encoder.0.self_attention -> encoder.0."""
    layer = LAYER.match(path)
    return layer[1] if layer else path


def respond(entry: CachedInspection, around: Around | None = None) -> Outcome | None:
    """The output computed inside the context manager `around`, if any; None if the model has no output."""
    if not entry.model.capabilities.responds:
        return None
    # the response of the inspection itself is known; only interventions need another run
    response: Response | None = entry.inspection.response if around is None else None
    if response is None:
        with refusing():
            response = entry.model.activate().respond(entry.inspection, around or nullcontext)
    return Outcome(
        output=response.output,
        tokens=list(response.tokens),
        log_prob=response.log_prob,
        log_prob_of_first=response.log_prob_of_first,
    )


def predict_one(model: RegisteredModel, request: PredictRequest) -> PredictAnswer:
    """The output for one input, without weights."""
    if not model.capabilities.responds:
        raise RefusedError(f"{model.name} has no output to predict. Choose a model that was trained.")
    # the model is loaded before the clock starts
    predictor, start = model.activate(), time.perf_counter()
    with refusing():
        # the page has nothing to show for an empty text, and an inspection of it is refused too
        output = predictor.predict([predictor.parse(refuse_blank(request.text))])[0]
    return PredictAnswer(
        output=str(output),
        # outputs of other packages may have neither
        log_prob=getattr(output, "log_prob", None),
        tokens=list(getattr(output, "tokens", ())),
        milliseconds=(time.perf_counter() - start) * 1e3,
    )


def generate(model: RegisteredModel, request: GenerateRequest) -> GenerateAnswer:
    """Text generated token by token, each with its log-probability under the unmodified distribution of the model."""
    if not model.capabilities.streams:
        raise RefusedError(f"{model.name} does not generate text token by token. POST /api/predict has its output.")
    predictor, start = model.activate(), time.perf_counter()
    options = {"temperature": request.temperature, "top_p": request.top_p, "seed": request.seed}
    with refusing():
        # consumed here: the stream is lazy, and its errors are raised by the iteration
        tokens = list(predictor.stream([request.text], max_tokens=request.max_tokens, **options))
    # NaN is not valid JSON, and a broken model should be named
    if not all(math.isfinite(token.log_prob) for token in tokens):
        raise RefusedError(f"{model.name} gives probabilities that are not finite. Train it again.")
    return GenerateAnswer(
        text="".join(token.text for token in tokens),
        tokens=[GeneratedToken(token=token.token, text=token.text, log_prob=token.log_prob) for token in tokens],
        unknown=predictor.unknown_in(request.text),
        milliseconds=(time.perf_counter() - start) * 1e3,
    )
