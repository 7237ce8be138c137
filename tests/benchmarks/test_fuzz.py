"""A short run of the fuzz has no problem, and every kind of defect is one."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks import fuzz, fuzz_cases, harness
from benchmarks.fuzz_checks import Findings, check_case
from regard.attention.scores import Cosine
from regard.kernels.dot import sdpa

# calls that break a rule must reach the package's own errors, and not those of the checks of shapes
pytestmark = [pytest.mark.unchecked, pytest.mark.filterwarnings("ignore")]


def problems(findings):
    return {name for name in fuzz.PROBLEMS if findings.counts[name]}


def test_a_short_run_finds_nothing():
    findings = fuzz.run(seed=7, num_cases=250, compiled=False)
    assert not findings.problems
    assert findings.counts["cases"] == findings.counts["fused contexts"] == 250
    assert findings.counts["gradients"] > 500 and findings.counts["mapped contexts"] > 20
    assert findings.counts["refusals by sentence"] >= len(fuzz_cases.WRONG)
    assert findings.counts["vague comparisons"] < 100


def test_compiled_cases_reuse_a_graph():
    findings, graphs = Findings(), fuzz.CompiledCases()
    for seed in range(12):
        graphs.check(seed, findings)
    assert not findings.problems and len(graphs.functions) == 1 and findings.counts["compiled contexts"] == 12


def changed(change):
    """attend with its result changed."""

    def attend(*tensors, **options):
        return change(original(*tensors, **options), options)

    original = fuzz_cases.attend
    return attend


def replace_context(function):
    return lambda attended, options: replace(attended, context=function(attended.context))


def without_weights_of_last_key(attended, options):
    if attended.weights is not None and attended.weights.shape[-1] > 1:
        attended.weights[..., -1] *= 0.5
    return attended


def fails(attended, options):
    raise RuntimeError("size mismatch")


DEFECTS = {
    "wrong contexts": replace_context(lambda context: context * 1.01),
    "wrong weights": without_weights_of_last_key,
    "wrong gradients": replace_context(lambda context: 2 * context - context.detach()),
    "hidden NaN": replace_context(lambda context: context.nan_to_num(0.0)),
    "created NaN": replace_context(lambda context: torch.where(context.isnan().any(), context, context / 0)),
    "unexpected errors": fails,
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name, monkeypatch):
    monkeypatch.setattr(fuzz_cases, "attend", changed(DEFECTS[name]))
    findings = Findings()
    for seed in range(80):
        with torch.no_grad() if name == "wrong weights" else torch.enable_grad():
            check_case(fuzz_cases.draw(seed), findings)
    assert name in problems(findings)


def test_a_scale_whose_sign_the_kernel_ignores_is_found(monkeypatch):
    """SDPA multiplies the -inf of its causal mask by the scale."""
    monkeypatch.setattr(sdpa, "with_positive_scale", lambda request: request)
    findings, cases = Findings(), map(fuzz_cases.draw, range(300))
    for case in cases:
        if case.score_name == "cosine" and case.align_name == "softmax":
            square = case.tensors[0], *(side[..., : case.shape[-2], :] for side in case.tensors[1:])
            if square[1].shape[-2] == case.shape[-2]:
                check_case(replace(case, tensors=square, mask=("causal",), score=Cosine(scale=-2.0)), findings)
    assert {"wrong contexts", "created NaN"} & problems(findings)


def test_a_wrong_call_that_is_accepted_or_fails_otherwise_is_found(monkeypatch):
    monkeypatch.setattr(fuzz, "WRONG", {"a right call": lambda: None, "another error": lambda: torch.zeros(2)[5]})
    findings = Findings()
    fuzz.check_wrong_calls(findings)
    assert problems(findings) == {"accepted wrong calls", "unexpected errors"}


def test_a_case_is_the_same_every_time():
    one, two = fuzz_cases.draw(12345), fuzz_cases.draw(12345)
    assert str(one) == str(two) and str(one) != str(fuzz_cases.draw(12346))
    assert all(left.allclose(right, 0, 0, equal_nan=True) for left, right in zip(one.tensors, two.tensors, strict=True))


def test_the_record_has_counts_commit_and_machine(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["fuzz", "--minutes", "0", "--seed", "3"])
    monkeypatch.setenv("REGARD_COMMIT", "abc")
    assert fuzz.main() == 0
    (record,) = json.loads((tmp_path / "fuzz.json").read_text())
    assert record["commit"] == "abc" and record["machine"]["torch"] == torch.__version__
    assert record["notes"]["seed"] == 3 and set(fuzz.PROBLEMS) <= set(record["notes"]["counts"])
    monkeypatch.setattr("sys.argv", ["fuzz", "--case", "12"])
    assert fuzz.main() == 0 and str(fuzz_cases.draw(12)) in capsys.readouterr().out
