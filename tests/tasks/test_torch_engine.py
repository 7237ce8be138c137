"""The torch engine decodes with the fused model or with its own; a translator uses its engine."""

from dataclasses import replace

import pytest

from regard.contracts import DecodingEngine, Hypothesis, LengthLimit, PaddedTokens
from regard.decoding import Beam, Greedy, Sampling
from regard.fused import FusedTransformer
from regard.tasks.torch_engine import TorchEngine
from tests.fused.systems import SOURCES, make_transformer

LIMIT = LengthLimit(0.0, 6)


@pytest.mark.parametrize("search", [Greedy(), Beam(size=3, num_best=2), Sampling(seed=4)], ids=str)
def test_outputs_do_not_depend_on_fused_code_or_batches(search):
    model = make_transformer()
    engine = TorchEngine(model=model, stack=PaddedTokens.from_lists)
    assert isinstance(engine, DecodingEngine) and isinstance(engine.decoder, FusedTransformer)
    plain = replace(engine, fused=False)
    assert plain.decoder is model
    expected = engine.decode(SOURCES, search, LIMIT)
    for other in (plain, replace(engine, tokens_per_batch=1)):
        for one, two in zip(expected, other.decode(SOURCES, search, LIMIT), strict=True):
            assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in two]
            assert one[0].log_prob == pytest.approx(two[0].log_prob, abs=1e-4)


class RecordingEngine:
    """Always the same hypothesis."""

    def __init__(self):
        self.calls = []

    def decode(self, sources, search, limit, *, return_weights=False, numbers=None):
        self.calls.append((sources, search, limit, return_weights, numbers))
        return [[Hypothesis(ids=(4,), log_prob=-1.0, score=-0.5, finished=True)] for _ in sources]


def test_a_translator_uses_its_engine(fitted):
    engine = RecordingEngine()
    translator = replace(fitted.system, engine=engine)
    outputs = translator.predict(["a b", "", "c"], beam=1, return_weights=True, first=10)
    token = translator.tokenizers.target.decode((4,))
    assert [output.text for output in outputs] == [token, "", token]
    ((sources, search, limit, return_weights, numbers),) = engine.calls
    assert [source[-1] for source in sources] == [2, 2] and (search, limit) == (Greedy(), LengthLimit())
    assert return_weights and numbers == [10, 12]
