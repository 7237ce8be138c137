"""`python -m benchmarks [NAME ...]`: every benchmark, or those named; `ablation` alone takes options after its name."""

import sys

from benchmarks import (
    ablation,
    additive,
    additive_cuda,
    additive_training,
    attention,
    attention_cuda,
    cross_entropy,
    default_training,
    generation,
    generation_cuda,
    product,
    recurrent,
    regression,
    translation_cuda,
    translation_decoding,
    translation_training,
)

BENCHMARKS = {
    "ablation": ablation.run,
    "additive": additive.run,
    "additive_cuda": additive_cuda.run,
    "additive_training": additive_training.run,
    "attention": attention.run,
    "attention_cuda": attention_cuda.run,
    "cross_entropy": cross_entropy.run,
    "default_training": default_training.run,
    "generation": generation.run,
    "generation_cuda": generation_cuda.run,
    "product": product.run,
    "recurrent": recurrent.run,
    "regression": regression.run,
    "translation_training": translation_training.run,
    "translation_decoding": translation_decoding.run,
    "translation_cuda": translation_cuda.run,
}


def main(names: list[str]) -> None:
    """Run the named benchmarks."""
    if names and names[0] == "ablation":
        ablation.run(names[1:])
        return
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(unknown)}; there is {', '.join(BENCHMARKS)}.")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
