"""One library of the decoding benchmark, in a separate process: python -m benchmarks.decoding_worker FOLDER NAME.

Libraries that share a process share its threads and its allocator, and slow each other down. A line on the standard
input starts one turn; the line of output has its seconds. CTranslate2's process does not even import torch.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the outputs once, then time one turn per line of input."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    task = json.loads((folder / "task.json").read_text())
    run = ctranslate2_side(folder, task) if name == "CTranslate2 float32" else torch_side(name, task)
    print(json.dumps(run()), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        run()
        print(time.perf_counter() - began, flush=True)


def ctranslate2_side(folder: Path, task: dict[str, Any]) -> Callable[[], list[list[int]]]:
    """CTranslate2, with tokens prepared beforehand."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder / "ctranslate2"),
        device="cpu",
        compute_type="float32",
        inter_threads=1,
        intra_threads=task["threads"],
    )
    batches_of_words = [[[str(token) for token in row] for row in rows] for rows in task["batches"]]
    options = {"beam_size": task["beam_size"], "max_decoding_length": task["most"]}
    if task["tokens_a_batch"] is not None:
        options |= {"max_batch_size": task["tokens_a_batch"], "batch_type": "tokens"}
    return lambda: [
        [int(token) for token in result.hypotheses[0]]
        for rows in batches_of_words
        for result in translator.translate_batch(rows, **options)
    ]


def torch_side(name: str, task: dict[str, Any]) -> Callable[[], list[list[int]]]:
    """Ours, MarianMT's generate, or Joey NMT's search."""
    import torch

    from benchmarks.joey import joey_search, joey_transformer
    from benchmarks.translation_decoding import copying_model, marian, ours, same_marian
    from benchmarks.translation_training import CONFIG

    torch.set_num_threads(task["threads"])
    if name == "Joey NMT":
        return joey_search(joey_transformer(CONFIG), task["batches"], beam_size=task["beam_size"], most=task["most"])
    model = copying_model()
    return ours(model, task) if name == "regard" else marian(same_marian(model), task)


if __name__ == "__main__":
    main()
