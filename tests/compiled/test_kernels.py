"""Triton kernels compiled for a GPU that need not exist, with the arguments of real calls.

The interpreter accepts code that the compiler does not. Nothing runs here: tensors are on the CPU and are not changed.
"""

import pytest
import torch

from regard.kernels import triton_support as tiles

if not tiles.INSTALLED or tiles.INTERPRETED:
    pytest.skip("needs Triton, and not its interpreter", allow_module_level=True)

from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from regard.kernels.additive.exact import ExactAttention
from regard.kernels.additive.sine import SineAttention
from regard.kernels.cross_entropy.chunked import loss_by_kernel
from regard.kernels.dot import packed
from regard.kernels.dot.packed_triton import backward_kernel, forward_kernel
from regard.kernels.gaussian.features import gaussian_features
from tests.kernels.additive_cases import gradient, make

pytestmark = pytest.mark.unchecked
TYPES = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int32: "*i32", torch.int64: "*i64",
    torch.bool: "*i1",
}  # fmt: skip


class Compiler:
    """Replaces the cache of `launch`: every kernel is compiled, and none is run."""

    def __init__(self):
        self.names = []

    def get(self, key):
        kernel = key[0]

        def called(*arguments):
            parts = list(zip(kernel.params, arguments, strict=True))
            signature = {part.name: "constexpr" if part.is_constexpr else type_of(given) for part, given in parts}
            constants = {(at,): given for at, (part, given) in enumerate(parts) if part.is_constexpr}
            aligned = {(at,): [["tt.divisibility", 16]] for at, (_, given) in enumerate(parts) if is_tensor(given)}
            source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
            compile_kernel(source, target=GPUTarget("cuda", 90, 32))
            self.names.append(kernel.__name__)

        return AnyGrid(called)


class AnyGrid:
    """A compiled kernel, for any grid."""

    def __init__(self, called):
        self.called = called

    def __getitem__(self, grid):
        assert all(isinstance(size, int) and size > 0 for size in grid)
        return self.called


def is_tensor(argument):
    return isinstance(argument, torch.Tensor)


def type_of(argument):
    if is_tensor(argument):
        return TYPES[argument.dtype]
    if isinstance(argument, float):
        return "fp32"
    return "i32" if abs(argument) < 2**31 else "i64"


@pytest.fixture
def compiler(monkeypatch):
    stand_in = Compiler()
    monkeypatch.setattr(tiles, "COMPILED_KERNELS", stand_in)
    return stand_in


@pytest.mark.parametrize("mask", [None, "everything", "shared"])
@pytest.mark.parametrize(
    ("path", "dtype"),
    [(SineAttention, torch.bfloat16), (SineAttention, torch.float16), (ExactAttention, torch.float32)],
)
def test_additive(compiler, path, dtype, mask):
    request = make((2, 65, 130, 64, 48), dtype=dtype, mask=mask)
    context, lse = path(request).forward()
    path(request).backward(context, lse, gradient(request))
    assert len(set(compiler.names)) >= 8, compiler.names


@pytest.mark.parametrize("widths", [False, True])
@pytest.mark.parametrize("size", [64, 50])
def test_gaussian_features(compiler, size, widths):
    queries, keys = (torch.randn(2, 3, 40, size, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    width = torch.full((size,) if widths else (), 0.1, dtype=torch.bfloat16, requires_grad=True)
    features = gaussian_features(queries, keys, width)
    torch.autograd.grad(features, (queries, keys, width), [torch.ones_like(side) for side in features])
    assert compiler.names == ["features_kernel", "backward_kernel"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_packed(compiler, dtype, causal):
    heads, offsets = torch.randn(40, 2, 64, dtype=dtype), torch.tensor([0, 10, 40], dtype=torch.int32)
    packed.launch_per_sequence(forward_kernel, *[heads] * 4, offsets, offsets, [32, 32], 0.125, causal)
    packed.launch_per_sequence(backward_kernel, *[heads] * 7, offsets, offsets, [32, 32], 0.125, causal)
    assert compiler.names == ["forward_kernel", "backward_kernel"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss(compiler, dtype, smoothing):
    loss_by_kernel(torch.randn(5, 5000, dtype=dtype), torch.arange(5), 0, smoothing, gradient=True)
    loss_by_kernel(torch.randn(5, 5000, dtype=dtype), torch.arange(5), 0, smoothing, gradient=False)
    assert compiler.names == ["loss_kernel"] * 2
