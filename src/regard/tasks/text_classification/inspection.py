"""Inspection of a classified sentence: every attention, and the probability of every class.

Shapes: r query rows of attention, L tokens.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.attention import trace
from regard.contracts import (
    UNK,
    Around,
    AttentionSite,
    Axis,
    ClassesPanel,
    ClassifierOutput,
    Inspection,
    ModelCall,
    PaddedTokens,
    Response,
    Title,
    Trace,
    device_of,
    to_double,
)
from regard.data.text import unknown_in
from regard.tasks.attention_sites import count_numbers, describe_site, find_sites, token_axis
from regard.tasks.base import refuse_blank

SOURCE, ROWS = "source", "rows"
TITLES = {SOURCE: Title(en="text", zh="文本"), ROWS: Title(en="row", zh="行")}
NUM_PROBE = 3


def inspect_sentence(
    classifier: Any,
    text: str,
    *,
    labels: Sequence[str],
    titles: Sequence[Title] = (),
    max_length: int,
    max_numbers: int | None = None,
) -> Inspection:
    """Every attention and class probability of a sentence, truncated to `max_length` tokens."""
    began = time.perf_counter()
    model = classifier.model
    whole = classifier.tokenizer.encode(refuse_blank(text))
    ids = whole[:max_length]
    sites = find_sites(model, lambda: probe(model))
    # the number of rows is not known before the forward pass
    count_numbers(sites, dict.fromkeys((SOURCE, ROWS), len(ids)), max_numbers)
    maps, output = record(model, ids)
    # with the recorded maps: the cached sites are those of an earlier call
    sites = find_sites(model, lambda: probe(model), maps)
    panel = replace(classes_panel(output, labels, sites), titles=tuple(titles))
    best = max(range(len(labels)), key=panel.probabilities.__getitem__)
    num_rows = 0 if panel.weights is None else panel.weights.shape[0]
    return Inspection(
        input=text,
        output=labels[best],
        forced=False,
        # the logarithm of a probability that has underflowed to 0
        log_prob=math.log(max(panel.probabilities[best], 1e-300)),
        axes=axes_of(classifier.tokenizer, text, ids, num_rows),
        sites=sites,
        maps=dict(maps.items()),
        panels=(panel,),
        unknown=tuple(unknown_in(text, classifier.tokenizer)),
        num_dropped=len(whole) - len(ids),
        call=ModelCall(inputs=f"sentence = PaddedTokens.from_lists([{ids}])\n", call="model(sentence)"),
        tokens=ids,
        seconds=time.perf_counter() - began,
    )


def axes_of(tokenizer: Any, text: str, ids: Sequence[int], num_rows: int) -> tuple[Axis, Axis]:
    """Axes of the tokens and of the query rows."""
    words = token_axis(SOURCE, TITLES[SOURCE], tokenizer.tokens(ids), texts=tokenizer.texts(text)[: len(ids)])
    return words, token_axis(ROWS, TITLES[ROWS], (str(number) for number in range(1, num_rows + 1)))


def classes_panel(output: ClassifierOutput, labels: Sequence[str], sites: Sequence[AttentionSite]) -> ClassesPanel:
    """Logits and probabilities of all classes, and the attention rows if the model has them."""
    logits = to_double(output.logits[0]).cpu()
    if not logits.isfinite().all():
        raise ValueError("the model gives no probabilities: its weights are broken. Train again.")
    return ClassesPanel(
        labels=tuple(labels),
        logits=tuple(logits.tolist()),
        probabilities=tuple(logits.softmax(-1).tolist()),
        site=None if output.weights is None else next((site.path for site in sites if site.is_cross), None),
        weights=None if output.weights is None else output.weights[0],
    )


def respond_sentence(classifier: Any, inspection: Inspection, around: Around) -> Response:
    """The class inside `around()`, and the log-probability of the inspection's class there."""
    labels = inspection.panel(ClassesPanel).labels
    with around():
        _, output = record(classifier.model, inspection.tokens)
    log_probs = to_double(output.logits[0]).log_softmax(-1).cpu()
    label = labels[int(log_probs.argmax())]
    return Response(
        output=label,
        tokens=(label,),
        log_prob=log_probs.max().item(),
        log_prob_of_first=log_probs[labels.index(inspection.output)].item(),
    )


def probe(model: Any) -> tuple[AttentionSite, ...]:
    """The attentions of a classifier: learned query rows over the sentence, or self-attention of its tokens."""
    maps, output = record(model, [UNK] * NUM_PROBE)
    # without separate query rows the tokens attend to each other
    query_axis = SOURCE if output.weights is None else ROWS
    return tuple(describe_site(path, one, query_axis=query_axis, key_axis=SOURCE) for path, one in maps.items())


def record(model: Any, ids: Sequence[int]) -> tuple[Trace, ClassifierOutput]:
    """Record every attention of a forward pass, and its output."""
    batch = PaddedTokens.from_lists([list(ids)]).to(device_of(model))
    with torch.inference_mode(), trace(model) as maps:
        output = model(batch)
    return maps, output
