"""Generation: every text as alone, with and without caches, and each option."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from regard.contracts import BOS, EOS, PAD, ModelOutput, Step
from regard.decoding import Generation, generate, stream
from regard.decoding.sampling import TokenSampler
from regard.models.language_modeling.gpt import GPT, GPTConfig

VOCAB = 17
PROMPTS = [[5, 9, 3, 4], [7], [2, 5, 5, 6, 11, 7, 9, 9, 4], [7]]
OPTIONS = {
    "best": Generation(temperature=0.0, max_tokens=6),
    "plain": Generation(max_tokens=6),
    "hot": Generation(temperature=3.0, max_tokens=6, seed=4),
    "top_k": Generation(top_k=3, max_tokens=6),
    "top_p": Generation(top_p=0.6, max_tokens=6),
    "min_p": Generation(min_p=0.4, max_tokens=6),
    "penalty": Generation(repetition_penalty=1.7, max_tokens=6),
    "best, penalty": Generation(temperature=0.0, repetition_penalty=1.7, max_tokens=6),
    "all": Generation(temperature=1.3, top_k=9, top_p=0.9, min_p=0.05, repetition_penalty=1.2, seed=2, max_tokens=6),
    "no stop": Generation(stop_ids=(), max_tokens=8),
    "stops": Generation(stop_ids=(4, 9, 10), max_tokens=14),
}


@dataclass(frozen=True)
class Count:
    total: Tensor


class Counting(nn.Module):
    """A model with a state: the next token depends on the sum of all inputs; it counts its rows."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(3 * torch.randn(101, VOCAB, dtype=torch.float64))
        self.num_rows = 0

    def readout(self, features):
        return features

    def start(self, num_rows):
        return Count(torch.zeros(num_rows, dtype=torch.int64))

    def features(self, tokens, state):
        totals = state.total[:, None] + (tokens**2 + 1).cumsum(1)
        return ModelOutput(features=self.table[totals % 101], state=Count(totals[:, -1]))

    def step(self, tokens, state):
        self.num_rows += len(tokens)
        output = self.features(tokens[:, None], state)
        return Step(logits=output.features[:, 0], state=output.state)

    def forward(self, tokens):
        return self.features(tokens, self.start(len(tokens))).features


def gpt(**changes):
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "feed_forward_size": 24, "context": 8}
    model = GPT(GPTConfig(vocab_size=VOCAB, **(sizes | changes))).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


MODELS = {"gpt": gpt, "rotary": lambda: gpt(positions="rotary"), "fake": Counting}


def uncached(model, prompt, options, *, number):
    """The same choices, each computed from the whole text."""
    ids, log_probs = list(prompt), []
    with torch.no_grad():
        for step in range(1, options.max_tokens + 1):
            text = torch.tensor([ids])
            logits = model(text)[:, -1]
            sampler = TokenSampler(options, numbers=torch.tensor([number]), texts=text, vocab_size=VOCAB)
            token = sampler(logits, torch.tensor([step])).item()
            log_probs.append(logits.log_softmax(-1)[0, token].item())
            ids.append(token)
            if token in options.stop_ids:
                return ids[len(prompt) :], log_probs, "stop"
    return ids[len(prompt) :], log_probs, "tokens"


@pytest.mark.parametrize(
    ("model", "name"), [*[(model, name) for model in ("gpt", "fake") for name in OPTIONS], ("rotary", "all")]
)
def test_every_text_equals_generation_alone_and_uncached(model, name):
    model, options = MODELS[model](), OPTIONS[name]
    actual = generate(model, PROMPTS, options)
    for row, (prompt, one) in enumerate(zip(PROMPTS, actual, strict=True)):
        (alone,) = generate(model, [prompt], options, numbers=[row])
        assert (one.ids, one.ended) == (alone.ids, alone.ended)
        assert one.log_probs == pytest.approx(alone.log_probs, abs=1e-10)
        ids, log_probs, ended = uncached(model, prompt, options, number=row)
        assert (list(one.ids), one.ended) == (ids, ended)
        assert one.log_probs == pytest.approx(log_probs, abs=1e-10)
        assert not {PAD, BOS} & set(one.ids)


def test_same_prompts_differ_by_their_numbers_and_seeds():
    model = Counting()
    options = Generation(max_tokens=12, stop_ids=(), temperature=2.0)
    actual = generate(model, [[7]] * 20, options)
    assert len({one.ids for one in actual}) > 15
    assert actual == generate(model, [[7]] * 20, options)
    assert actual[3:5] == generate(model, [[7]] * 2, options, numbers=[3, 4])
    assert actual != generate(model, [[7]] * 20, Generation(max_tokens=12, stop_ids=(), temperature=2.0, seed=1))


def test_pad_and_bos_are_never_sampled():
    model = Counting()
    with torch.no_grad():
        model.table[:, :EOS] = 50.0
    for temperature in (0.0, 1.0):
        (actual,) = generate(model, [[7]], Generation(temperature=temperature, max_tokens=8, stop_ids=()))
        assert min(actual.ids) >= EOS
        # the log-probability is the model's own, normalised over <pad> and <bos> too
        assert max(actual.log_probs) < -30


def test_the_reason_for_the_end_is_reported():
    model, options = Counting(), Generation(temperature=0.0, max_tokens=10, stop_ids=())
    (free,) = generate(model, [[7]], options)
    assert free.ended == "tokens" and len(free.ids) == 10
    at = free.ids[3]
    (stopped,) = generate(model, [[7]], Generation(temperature=0.0, max_tokens=10, stop_ids=(at,)))
    assert stopped.ended == "stop" and stopped.ids == free.ids[: free.ids.index(at) + 1]
    (last,) = generate(model, [[7]], Generation(temperature=0.0, max_tokens=1, stop_ids=(free.ids[0],)))
    assert last.ended == "stop" and len(last.ids) == 1
    (called,) = generate(model, [[7]], options, stop=lambda row, ids: len(ids) == 4)
    assert called.ended == "stop" and called.ids == free.ids[:4]


def test_a_stream_equals_generate():
    model, options = gpt(), OPTIONS["plain"]
    rows = [[] for _ in PROMPTS]
    for step in stream(model, PROMPTS, options):
        assert not torch.is_inference_mode_enabled()
        for token_output in step:
            rows[token_output.row].append(token_output)
    for token_output, one in zip(rows, generate(model, PROMPTS, options), strict=True):
        assert tuple(token.token for token in token_output) == one.ids
        assert tuple(token.log_prob for token in token_output) == one.log_probs
        assert [token.ended for token in token_output] == [None] * (len(token_output) - 1) + [one.ended]


def test_a_closed_text_ends_and_the_others_continue():
    model, options = Counting(), Generation(temperature=0.0, max_tokens=10, stop_ids=())
    closed, rows = {3}, [[] for _ in PROMPTS]
    for step in stream(model, PROMPTS, options, closed=closed):
        for token_output in step:
            rows[token_output.row].append(token_output.token)
        if len(rows[1]) == 3:
            closed.add(1)
    whole = [list(one.ids) for one in generate(model, PROMPTS, options)]
    assert rows == [whole[0], whole[1][:3], whole[2], []]


def test_finished_texts_leave_the_batch():
    model, options = Counting(), Generation(temperature=0.0, max_tokens=20, stop_ids=())
    generate(model, [[7]] * 8, options)
    assert model.num_rows == 8 * 19
    model.num_rows = 0
    actual = generate(model, [[7]] * 8, options, stop=lambda row, ids: row < 6)
    assert model.num_rows == 2 * 19
    assert [len(one.ids) for one in actual] == [1] * 6 + [20] * 2


def test_the_penalty_by_hand():
    logits = torch.tensor([[9.0, 9.0, 2.0, 1.9, -1.0, -1.1]])
    options = Generation(temperature=0.0, repetition_penalty=2.0)
    sampler = TokenSampler(options, numbers=torch.tensor([0]), texts=torch.tensor([[2, 4]]), vocab_size=6)
    step = torch.tensor([1])
    assert sampler(logits, step).item() == 3
    sampler.record(torch.tensor([3]))
    assert sampler(logits, step).item() == 2
    negative = torch.tensor([[0.0, 0.0, -3.0, -3.0, -1.0, -1.5]])
    # the penalty doubles a logit of -1
    assert sampler(negative, step).item() == 5
    rewarding = Generation(temperature=0.0, repetition_penalty=0.5)
    sampler = TokenSampler(rewarding, numbers=torch.tensor([0]), texts=torch.tensor([[3]]), vocab_size=6)
    assert sampler(logits, step).item() == 3


def test_log_probs_are_returned_only_on_request():
    model = gpt()
    with_log_probs, plain = (
        generate(model, PROMPTS, OPTIONS["top_k"], return_log_probs=return_log_probs)
        for return_log_probs in (True, False)
    )
    assert [one.ids for one in with_log_probs] == [one.ids for one in plain]
    assert all(one.log_probs is None for one in plain)


def test_generation_restores_the_training_mode():
    model = gpt(dropout=0.5).train()
    model.layers[0].eval()
    actual = generate(model, PROMPTS, OPTIONS["best"])
    assert [module.training for module in model.layers] == [False, True]
    assert actual == generate(model.eval(), PROMPTS, OPTIONS["best"])
    model.train()
    steps = stream(model, PROMPTS, OPTIONS["best"])
    next(steps)
    assert model.training
    steps.close()
    assert generate(model, [], OPTIONS["best"]) == []


@pytest.mark.unchecked
def test_a_fractional_number_of_tokens_is_rounded_down():
    actual = generate(Counting(), [[3], [4, 5]], Generation(temperature=0.0, max_tokens=2.5, stop_ids=()))
    assert [len(one.ids) for one in actual] == [2, 2]


def test_a_temperature_near_zero_selects_the_most_probable_token():
    model = Counting()
    cold = Generation(temperature=5e-324, max_tokens=6)
    assert generate(model, PROMPTS, cold) == generate(model, PROMPTS, OPTIONS["best"])


def test_errors_have_the_value():
    model = Counting()
    with pytest.raises(ValueError, match=r"prompt 1 is empty, .* predicts the token after a token\. Pass <eos>"):
        stream(model, [[3], []])
    with pytest.raises(ValueError, match="prompt 0 has tokens from -1 to 3, expected 0 or more"):
        stream(model, [[3, -1]])
    with pytest.raises(ValueError, match="prompt 1 has tokens from 4 to 17, expected 0 to 16"):
        stream(gpt(), [[3], [4, 17]])
    with pytest.raises(ValueError, match="there are 1 numbers for 2 prompts"):
        generate(model, [[3], [4]], numbers=[0])
    with torch.no_grad():
        model.table.fill_(float("nan"))
    for return_log_probs in (True, False):
        with pytest.raises(ValueError, match="the model gives NaN for prompt 0"):
            generate(model, [[3]], return_log_probs=return_log_probs)


@pytest.mark.parametrize("spoiled", [float("nan"), float("inf")])
@pytest.mark.parametrize("options", [{"temperature": 0.0}, {}, {"top_k": 3}, {"top_p": 0.5}])
def test_nan_is_detected_without_log_probs_too(spoiled, options):
    model = Counting()
    with torch.no_grad():
        model.table[:, 5] = spoiled
    with pytest.raises(ValueError, match="the model gives NaN"):
        generate(model, [[4]], Generation(max_tokens=3, **options), return_log_probs=False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens is 0, expected 1 token or more"),
        (
            {"temperature": -0.5},
            "temperature is -0.5, expected 0, which always takes the best token",
        ),
        ({"temperature": float("nan")}, "temperature is nan, expected 0"),
        ({"temperature": float("inf")}, "temperature is inf, expected 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, expected a number above 0"),
        ({"repetition_penalty": 1e7}, "from 1e-06 to 1e\\+06: 1.0 changes nothing"),
        ({"repetition_penalty": 1e-300}, "repetition_penalty is 1e-300, expected a number above 0"),
        ({"temperature": 0.0, "top_k": 0}, "top_k is 0, expected 1 token or more"),
        ({"top_p": 0.0}, "top_p is 0.0, expected a share above 0"),
        ({"min_p": -0.1}, "min_p is -0.1, expected a share of the best token's"),
        ({"min_p": 1.1}, "min_p is 1.1, expected a share of the best token's"),
    ],
)
def test_invalid_settings_raise_errors(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Generation(**settings)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["best", "all", "no stop"])
def test_cuda_gives_the_same_text(name):
    model = gpt()
    expected = generate(model, PROMPTS, OPTIONS[name])
    model = model.cuda()
    for _ in range(2):
        actual = generate(model, PROMPTS, OPTIONS[name])
        assert [one.ids for one in actual] == [one.ids for one in expected]
        for one, other in zip(actual, expected, strict=True):
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-9)
