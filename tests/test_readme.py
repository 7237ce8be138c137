"""The READMEs have the same content in both languages, and their figures are the recorded ones."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh.md")
RESULTS = ROOT / "benchmarks" / "results"


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def code_of(readme, language):
    return re.findall(rf"```{language}\n(.*?)```", text_of(readme), re.DOTALL)


@pytest.mark.parametrize("language", ["python", "pycon", "console", "bibtex"])
def test_both_languages_show_the_same_code(language):
    # comments and the name of the repository are translated
    english, chinese = (
        [re.sub(r"\s+#.*|<[^>\n]+>", "", block) for block in code_of(readme, language)] for readme in READMES
    )
    assert english and english == chinese


def test_both_languages_have_the_same_structure():
    english, chinese = (
        [re.match(r"#+|\||!\[", line)[0] for line in text_of(readme).splitlines() if re.match(r"#+ |\||!\[", line)]
        for readme in READMES
    )
    assert english == chinese


@pytest.mark.parametrize("page", [*READMES, "CONTRIBUTING.md", "docs/attention.md"])
def test_no_placeholder_remains(page):
    assert not re.search(r"@[A-Z]+@", text_of(page))


def ratio(name, question, timing):
    """The recorded time of a timing, relative to its baseline, in the one report whose question contains the text."""
    (report,) = (each for each in json.loads((RESULTS / f"{name}.json").read_text()) if question in each["question"])
    return report["ratios"][timing]


def compiled(way):
    """The faster of two forms under torch.compile."""
    question = f"additive attention, {way}, (8, 2048"
    return min(ratio("additive_cuda", question, f"torch.compile, {form}") for form in ("sum", "product"))


def dot_ratios():
    """The fastest SDPA backend relative to attend, forward and backward."""
    return [
        min(report["ratios"][name] for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION"))
        for report in json.loads((RESULTS / "attention_cuda.json").read_text())
        if report["question"].startswith("dot attention") and "forward and backward" in report["question"]
    ]


def generated(name, *questions):
    return " / ".join(f"{ratio(name, question, 'transformers generate'):.1f}" for question in questions)


def additive_cpu(way):
    return ratio("additive", f"additive attention, {way}, (4, 1024", "plain torch")


REGRESSION = "10,000 points x 10,000 queries in 16 dimensions, float32"
SPEED = [
    f"{1 / ratio('attention', 'forward at (4, 8, 2048, 64)', 'scaled_dot'):.2f}",
    f"{min(dot_ratios()):.2f}-{max(dot_ratios()):.2f}",
    f"{compiled('forward'):.1f} / {compiled('forward and backward'):.1f}",
    f"{additive_cpu('forward'):.0f} / {additive_cpu('forward and backward'):.0f}",
    f"{1 / ratio('translation_cuda', '256 wide', 'regard, packed, graphed'):.1f}",
    generated("generation", "12 x 768, vocabulary 50257, batch 1,", "12 x 768, vocabulary 50257, batch 16,"),
    generated("generation_cuda", "6 x 384, vocabulary 50257, batch 1, bf", "6 x 384, vocabulary 50257, batch 16, bf"),
    " / ".join(f"{ratio('regression', REGRESSION, other):.1f}" for other in ("SDPA", "KeOps")),
]
"""The last column of the table of speeds."""


@pytest.mark.parametrize(("readme", "heading"), [("README.md", "## Speed"), ("README.zh.md", "## 速度")])
def test_the_speeds_equal_the_recorded_ones(readme, heading):
    section = text_of(readme).split(heading)[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    assert [row[-1].strip() for row in rows] == SPEED
