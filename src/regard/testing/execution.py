"""Checks of one score with one alignment: derivatives, files, autocast, extreme scores, shapes, the compiler, CUDA."""

import copy
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.autograd import gradcheck

from regard.attention import Attention, which_backend
from regard.attention.masks import ComposableMask, causal, padding
from regard.contracts import torch_private
from regard.testing.cases import (
    LENGTHS,
    NUM_QUERIES,
    TOLERANCE,
    VALUE_SIZE,
    AttentionCase,
    gradients_of,
    position_info,
    write_out,
)
from regard.testing.comparison import assert_close, assert_equal, assert_finite, assert_zero

Shape: TypeAlias = tuple[tuple[int, ...], int, int]
SHAPES: tuple[Shape, ...] = (
    ((), 4, 7),
    ((2,), 1, 7),
    ((2, 3), 5, 5),
    ((2,), 4, 2),
    ((1, 3, 2), 3, 4),
    ((0,), 2, 3),
    ((2,), 0, 3),
    ((), 3, 0),
)
"""Leading dimensions, queries and keys: more queries than keys, one query, empty dimensions."""


def lengths_mask(device: str | torch.device = "cpu") -> ComposableMask:
    """Causal, with the lengths of the batch."""
    return causal() & padding(torch.tensor(LENGTHS, device=device))


def is_fused(case: AttentionCase, inputs: tuple[Tensor, ...]) -> bool:
    """Whether attention without weights runs a fused kernel."""
    queries, keys, values = inputs
    choice = which_backend(
        queries, keys, values, **case.parts(queries.dtype), mask=lengths_mask(), position_info=position_info()
    )
    return choice.backend != "plain"


def check_gradcheck(case: AttentionCase) -> None:
    """Gradients of the formed path, and of the fused one where there is one, are the numerical ones (float64)."""
    if not case.differentiable:
        return
    inputs = tuple(tensor.requires_grad_() for tensor in case.inputs())
    for return_weights in (True, False):
        if not return_weights and not is_fused(case, inputs):
            continue

        # a default binds the current value; a closure would use that of the last iteration
        def context(*tensors: Tensor, return_weights: bool = return_weights) -> Tensor:
            return case.attend(tensors, mask=lengths_mask(), return_weights=return_weights).context

        path = "formed" if return_weights else "fused"
        try:
            # fast_mode compares one random projection instead of every entry
            gradcheck(context, inputs, fast_mode=True)
        except RuntimeError as error:  # GradcheckError, which torch does not export
            raise AssertionError(
                f"{case}: the gradient of the {path} path is not the numerical one. {error}"
            ) from error


def check_saved_and_loaded(case: AttentionCase) -> None:
    """The state, saved and loaded into a module with other numbers, gives the same context.

    Everything that is no parameter and no buffer of the other module is redrawn: such a tensor would not be saved.
    """
    attention = Attention(**case.parts(torch.float64)).eval()
    # safetensors refuses tensors that share memory
    state = save({key: tensor.contiguous().clone() for key, tensor in attention.state_dict().items()})
    other = copy.deepcopy(attention)
    for module in other.modules():
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter)
        # attributes that are not in the state
        for key, value in vars(module).items():
            if isinstance(value, Tensor) and value.is_floating_point():
                setattr(module, key, torch.randn_like(value))
    other.load_state_dict(load(state))
    queries, keys, values = case.inputs()
    contexts = [
        module(queries, module.prepare_memory(keys, values), position_info=position_info(), return_weights=True).context
        for module in (attention, other)
    ]
    assert_equal(contexts[1], contexts[0], f"{case}: saved and loaded gives the same")


def check_autocast(case: AttentionCase) -> None:
    """Under bfloat16 autocast the fused path equals the formed one within 0.1, and gradients are finite."""
    inputs = tuple(tensor.requires_grad_() for tensor in case.inputs(torch.float32))
    mask = padding(torch.tensor(LENGTHS))
    with torch.autocast("cpu", torch.bfloat16):
        fused = case.attend(inputs, mask=mask).context
        formed = case.attend(inputs, mask=mask, return_weights=True).context
    assert_close(fused.float(), formed.float(), 0.1, f"{case}: under autocast the fused context equals the formed one")
    # outside autocast, as torch recommends for the backward pass
    gradients = torch.autograd.grad(formed.float().sum(), inputs, allow_unused=True)
    assert_finite(gradients, f"{case}: gradients under autocast are finite")


def check_huge_scores(case: AttentionCase) -> None:
    """Scores that overflow give no NaN, in the context and in the gradients of either path.

    A query is left out if one of its own scores is NaN and, in float64, beyond the largest number of the precision: a
    sum of products of both signs is inf - inf there.
    """
    # float16 is checked together with bfloat16
    dtypes = {*case.dtypes, *((torch.float16,) if torch.bfloat16 in case.dtypes else ())}
    # the largest number of float16 is 65504, so that larger inputs would be infinite themselves
    scales = [(dtype, scale) for dtype in (torch.float32, torch.bfloat16) for scale in (1e2, 1e4, 1e15, 1e30)]
    for dtype, scale in (*scales, (torch.float16, 1e4)):
        if dtype not in dtypes:
            continue
        queries, keys, values = case.inputs(torch.float32)
        # one huge number in one query and one key: their score overflows, the others are ordinary
        queries[0, 0, 0], keys[0, 1, 0] = scale, scale
        inputs = tuple(tensor.to(dtype).requires_grad_() for tensor in (queries, keys, values))
        undefined = queries_beyond_range(case, inputs)
        for return_weights in (True, False):
            where = f"{case}, {dtype}, an input of {scale:g}, return_weights={return_weights}"
            context = case.attend(inputs, mask=lengths_mask(), return_weights=return_weights).context
            count = int(context[~undefined].isnan().sum())
            assert not count, f"{where}: the context has {count} NaN."
            if undefined.any():
                # keys and values are shared with the query that was left out, and so are their gradients
                continue
            # clamped, because an infinite loss has NaN gradients for any attention
            loss = context.float().clamp(-1e4, 1e4).sum()
            for gradient in torch.autograd.grad(loss, inputs, allow_unused=True):
                count = 0 if gradient is None else int(gradient.isnan().sum())
                assert not count, f"{where}: a gradient has {count} NaN."


def queries_beyond_range(case: AttentionCase, inputs: tuple[Tensor, ...]) -> Tensor:
    """Queries with an allowed score that is NaN in this precision and too large for it in float64."""
    dtype, scores = inputs[0].dtype, []
    with torch.no_grad():
        for precision in (dtype, torch.float64):
            queries, keys, _ = (tensor.to(precision) for tensor in inputs)
            score = case.parts(precision)["score"]
            scores.append(score(queries, score.prepare(keys)))
    beyond = scores[0].isnan() & scores[1].isfinite() & (scores[1].abs() > torch.finfo(dtype).max)
    return (beyond & write_out(lengths_mask())).any(dim=-1)


def check_no_keys(case: AttentionCase) -> None:
    """Without any key the context is zeros, and so are the gradients of the queries, on both paths."""
    queries, keys, values = case.inputs()
    queries.requires_grad_()
    for return_weights in (True, False):
        inputs = (queries, keys[:, :0].requires_grad_(), values[:, :0].requires_grad_())
        context = case.attend(inputs, return_weights=return_weights).context
        expected = torch.zeros(queries.shape[0], NUM_QUERIES, VALUE_SIZE, dtype=torch.float64)
        claim = f"{case}: without any key the context is zeros (return_weights={return_weights})"
        assert_equal(context, expected, claim)
        # without keys the context may be a constant
        (gradient,) = torch.autograd.grad(context.sum(), queries, allow_unused=True)
        if gradient is not None:
            assert_zero(gradient, f"{case}: without any key the queries have gradient 0")


def check_shapes(case: AttentionCase, shapes: Iterable[Shape] = SHAPES) -> None:
    """Weights and context have the shapes that follow from the inputs; the fused path gives the same context."""
    for leading, num_queries, num_keys in shapes:
        sizes = (num_queries, case.query_size), (num_keys, case.key_size), (num_keys, VALUE_SIZE)
        inputs = tuple(torch.randn(*leading, *size, dtype=torch.float64) for size in sizes)
        where = f"{case}, leading dimensions {leading}, {num_queries} queries and {num_keys} keys"
        formed = case.attend(inputs, mask=causal(), return_weights=True)
        assert formed.weights is not None, f"{where}: return_weights=True returns no weights."
        actual = tuple(formed.weights.shape), tuple(formed.context.shape)
        expected = (*leading, num_queries, num_keys), (*leading, num_queries, VALUE_SIZE)
        assert actual == expected, f"{where}: weights and context have the shapes {actual}, expected {expected}."
        fused = case.attend(inputs, mask=causal()).context
        assert_close(fused, formed.context, 1e-10, f"{where}: the fused context equals the formed one")


def check_compiled(case: AttentionCase) -> None:
    """torch.compile(fullgraph=True) makes one graph of it, with the same context and gradients."""
    # graphs of earlier cases would count towards torch's limit of recompilations
    torch.compiler.reset()
    parts = case.parts(torch.float64)

    def attention(lengths: Tensor, *tensors: Tensor) -> Tensor:
        return case.attend(tensors, mask=causal() & padding(lengths), parts=parts).context

    # aot_eager traces forward and backward, and generates no code, which would take much longer
    compiled: Any = torch.compile(attention, fullgraph=True, backend="aot_eager")
    inputs, lengths = tuple(tensor.requires_grad_() for tensor in case.inputs()), torch.tensor(LENGTHS)
    try:
        context = compiled(lengths, *inputs)
    except torch_private.compile_errors() as error:
        raise AssertionError(f"{case}: torch.compile(fullgraph=True) does not make one graph of it. {error}") from error
    expected = attention(lengths, *inputs)
    assert_close(context, expected, 1e-10, f"{case}: compiled and eager contexts are equal")
    gradients = [torch.autograd.grad(each.sum(), inputs, allow_unused=True) for each in (context, expected)]
    for actual, eager in zip(*gradients, strict=True):
        assert (actual is None) == (eager is None), f"{case}: compiled, a gradient is None where eager has one."
        if actual is not None and eager is not None:
            assert_close(actual, eager, 1e-10, f"{case}: compiled and eager gradients are equal")


def check_cuda_equals_cpu(case: AttentionCase) -> None:
    """CUDA gives the numbers of the CPU, gradients too, on both paths, with every mask and precision of the case.

    Without a CUDA device nothing is checked.
    """
    if not torch.cuda.is_available():
        return
    for dtype in case.dtypes:
        for mask_name, make_mask in case.masks.items():
            for return_weights in (True, False):
                results = []
                for device in ("cpu", "cuda"):
                    inputs = tuple(tensor.to(device).requires_grad_() for tensor in case.inputs(dtype))
                    mask = make_mask(torch.tensor(LENGTHS, device=device))
                    attended = case.attend(inputs, mask=mask, return_weights=return_weights)
                    # the cached copies that `attend` has used, so that their parameters have the gradients
                    gradients = gradients_of(attended, inputs, case.parts(dtype, inputs[0].device))
                    results.append([attended.context, *gradients])
                where = f"{case}, mask {mask_name}, {dtype}, return_weights={return_weights}"
                assert_finite(results[1], f"{where}: numbers on CUDA are finite")
                tolerance = 5 * TOLERANCE[dtype]
                for cpu, cuda in zip(*results, strict=True):
                    # relative to the size of the number too
                    assert_close(cuda, cpu, tolerance, f"{where}: CUDA equals the CPU", rtol=tolerance)


CASE_CHECKS = (
    check_gradcheck,
    check_saved_and_loaded,
    check_autocast,
    check_huge_scores,
    check_no_keys,
    check_shapes,
    check_compiled,
    check_cuda_equals_cpu,
)
"""Checks of one score with one alignment."""
