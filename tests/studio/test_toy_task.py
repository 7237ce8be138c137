"""A predictor of a task that the package does not know can be inspected, swapped and ablated in the studio."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn

from regard.attention import Attention, intervene, trace
from regard.attention.scores import ScaledDot
from regard.contracts import Axis, Capabilities, ClassesPanel, Description, Inspection, Predictor, Response, Title
from regard.studio.app import make_app
from regard.studio.model_registry import ModelRegistry, RegisteredModel
from regard.studio.schema import LocalizedText, ModelCard
from regard.studio.state import Studio
from regard.tasks import describe_site
from tests.studio.conftest import HOST, TOKEN

LABELS = ("few vowels", "many vowels")
LETTERS = Title(en="letters", zh="字母")
DESCRIPTION = Description(
    reads=Title(en="words", zh="单词"), writes=Title(en="whether they have many vowels", zh="元音的多少")
)


class VowelModel(nn.Module):
    """One query over the letters of a word, in two heads of size 2."""

    def __init__(self):
        super().__init__()
        self.attention = Attention(ScaledDot())
        self.query = nn.Parameter(torch.tensor([[[[1.0, 0.0]], [[0.5, 0.5]]]]))

    def forward(self, letters):
        vectors = torch.stack([letters, 1 - letters], dim=-1)[None, None].expand(1, 2, -1, 2)
        memory = self.attention.prepare_memory(vectors, vectors)
        context = self.attention(self.query, memory).context
        return context[0, :, 0].sum(0).flip(0)


@dataclass(frozen=True)
class VowelsPanel:
    """A panel that neither the contracts nor the page have."""

    name: ClassVar[str] = "vowels"
    count: int


class VowelPredictor:
    """Classifies words by their share of vowels."""

    def __init__(self):
        self.model, self.run = VowelModel(), None

    @property
    def device(self):
        return torch.device("cpu")

    def parse(self, data):
        if not str(data).isalpha():
            raise ValueError(f"{data!r} is not one word of letters. Leave out spaces and digits.")
        return str(data)

    def encode(self, word):
        return torch.tensor([float(letter in "aeiou") for letter in word])

    def predict(self, inputs, *, return_weights=False):
        return [self.inspect(word).output for word in inputs]

    def score(self, inputs, outputs):
        log_probs = [self.model(self.encode(word)).log_softmax(-1) for word in inputs]
        return [float(row[LABELS.index(label)]) for row, label in zip(log_probs, outputs, strict=True)]

    def inspect(self, data, output=None, *, max_numbers=None):
        with torch.inference_mode(), trace(self.model) as maps:
            logits = self.model(self.encode(data))
        log_probs = logits.log_softmax(-1)
        best = int(logits.argmax())
        return Inspection(
            input=data,
            output=LABELS[best],
            forced=False,
            log_prob=float(log_probs[best]),
            axes=(
                Axis(name="letters", kind="tokens", title=LETTERS, labels=tuple(data)),
                Axis(name="query", kind="tokens", title=Title(en="query", zh="查询"), labels=("vowel?",)),
            ),
            sites=tuple(describe_site(path, one, query_axis="query", key_axis="letters") for path, one in maps.items()),
            maps=dict(maps.items()),
            panels=(
                ClassesPanel(
                    labels=LABELS, logits=tuple(logits.tolist()), probabilities=tuple(log_probs.exp().tolist())
                ),
                VowelsPanel(count=int(self.encode(data).sum())),
            ),
        )

    def respond(self, inspection, around):
        with around(), torch.inference_mode():
            log_probs = self.model(self.encode(inspection.input)).log_softmax(-1)
        best = int(log_probs.argmax())
        return Response(
            output=LABELS[best],
            tokens=(LABELS[best],),
            log_prob=float(log_probs[best]),
            log_prob_of_first=float(log_probs[LABELS.index(inspection.output)]),
        )

    def evaluate(self, examples, *, split, steps=0, **options):
        raise ValueError("there are no examples of vowels.")

    def samples(self):
        return ["aeon", "rhythm"]

    @property
    def description(self):
        return DESCRIPTION

    def unknown_in(self, text, *, is_output=False):
        return []


@pytest.fixture(scope="module")
def toy():
    predictor = VowelPredictor()
    assert isinstance(predictor, Predictor)
    capabilities = Capabilities()
    card = ModelCard(
        name="vowels", task="vowels", task_title=LocalizedText(en="Vowels", zh="元音"), verb="count", input="text",
        takes_output=capabilities.takes_output, streams=capabilities.streams, multiline=capabilities.multiline,
        responds=capabilities.responds, fixed_input=False, system="vowel", title="Vowels", year=2026, attends=True,
        parameters=4, recipe="toy", languages=[], tokens="letters", steps=0, samples=predictor.samples(), quality=None,
        reads=LocalizedText.of(DESCRIPTION.reads), writes=LocalizedText.of(DESCRIPTION.writes), parts=None,
    )  # fmt: skip
    registry = ModelRegistry([])
    registry.add(RegisteredModel(name="vowels", predictor=predictor, capabilities=capabilities), card)
    app = make_app(Studio(registry=registry), token=TOKEN, hosts=[HOST])
    with TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client, predictor


@pytest.fixture(scope="module")
def inspection(toy):
    client, _ = toy
    answer = client.post("/api/inspections", json={"model": "vowels", "text": "aeon"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_toy_is_listed_with_its_axes_and_panels(toy, inspection):
    client, _ = toy
    assert "vowels" in [card["name"] for card in client.get("/api/state").json()["models"]]
    assert [axis["name"] for axis in inspection["axes"]] == ["letters", "query"]
    assert inspection["axes"][0]["tokens"] == list("aeon") and inspection["panels"] == ["classes", "vowels"]
    classes = client.get(f"/api/inspections/{inspection['id']}/classes").json()
    assert classes["label"] == inspection["output"] == "many vowels" and classes["overlap"] is None
    assert sum(one["probability"] for one in classes["classes"]) == pytest.approx(1, abs=1e-6)


def test_the_numbers_of_the_toy_are_consistent(toy, inspection):
    client, _ = toy
    params = {"site": "attention", "query": 0, "head": 1}
    values = client.get(f"/api/inspections/{inspection['id']}/compute", params=params).json()
    np.testing.assert_allclose(np.array(values["weights"]) @ np.array(values["values"]), values["context"], atol=1e-6)
    number = client.get(f"/api/inspections/{inspection['id']}/number", params=params | {"quantity": "weight"}).json()
    assert number["value"] == pytest.approx(values["weights"][0])
    heads = client.get(f"/api/inspections/{inspection['id']}/heads").json()["heads"]
    assert [(card["queries"], card["keys"], card["head"]) for card in heads] == [
        ("query", "letters", 0),
        ("query", "letters", 1),
    ]


def test_a_swap_and_an_ablation_change_its_output_as_an_intervention_does(toy, inspection):
    client, predictor = toy
    where = f"/api/inspections/{inspection['id']}"
    same = client.post(f"{where}/swap", json={"site": "attention"}).json()
    assert same["before"]["output"] == same["after"]["output"]
    assert same["before"]["log_prob"] == pytest.approx(same["after"]["log_prob"])
    hard = client.post(f"{where}/swap", json={"site": "attention", "align": "hard"}).json()
    assert max(hard["entropy_after"]) == 0 and hard["after"]["log_prob"] != hard["before"]["log_prob"]
    ablated = client.post(f"{where}/ablate", json={"site": "attention", "head": 0}).json()

    def without_first(path, attention_map):
        return attention_map.weights * torch.tensor([0.0, 1.0])[:, None, None]

    with intervene(predictor.model, without_first):
        expected = predictor.score(["aeon"], [inspection["output"]])[0]
    assert ablated["after"]["log_prob_of_first"] == pytest.approx(expected, abs=1e-6)
    assert ablated["before"]["log_prob"] == pytest.approx(inspection["log_prob"], abs=1e-6)


def test_the_toy_predicts_and_invalid_requests_are_refused(toy, inspection):
    client, _ = toy
    assert client.post("/api/predict", json={"model": "vowels", "text": "rhythm"}).json()["output"] == "few vowels"
    refused = client.post("/api/inspections", json={"model": "vowels", "text": "two words"})
    assert refused.status_code == 422 and "not one word of letters" in refused.json()["detail"]
    for panel, params in (("next", {"position": 0}), ("tokens", {}), ("state", {})):
        answer = client.get(f"/api/inspections/{inspection['id']}/{panel}", params=params)
        assert answer.status_code == 422 and "there is classes, vowels" in answer.json()["detail"]
    answer = client.post("/api/generate", json={"model": "vowels", "text": "a"})
    assert answer.status_code == 422 and "token by token" in answer.json()["detail"]
