"""Devices, processes and precision, through accelerate. https://huggingface.co/docs/accelerate.

One process needs nothing but this file's defaults; several are started by `torchrun` or `accelerate launch`, which also
decides on sharded weights (FSDP version 2). No step waits for the device.
"""

import atexit
import copy
import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoint import load_optimizer, pack_optimizer, pack_random, unpack_optimizer, unpack_random
from regard.contracts import map_tensors
from regard.training.cuda_graph import FILL, GraphedStep, StepChoice, choose_step, reasons_against_replay
from regard.training.objective import Objective
from regard.training.segment_objective import StreamObjective
from regard.training.selection import RunningAverage
from regard.training.settings import AdamSettings, ComputeSettings, SGDSettings, TrainingSettings


class Shards:
    """Torch's own way from shards to whole tensors and back; half of `import regard` would go into importing it."""

    def __init__(self) -> None:
        from torch.distributed.checkpoint import state_dict

        self.get_weights = state_dict.get_model_state_dict
        self.get_optimizer = state_dict.get_optimizer_state_dict
        self.set_optimizer = state_dict.set_optimizer_state_dict
        self.full = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)


class Engine:
    """A model ready to learn on whatever devices and processes there are."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        make_objective: Callable[..., nn.Module] = Objective,
        *,
        capturable: bool = False,
    ) -> None:
        self.accelerator = _make_accelerator(settings.compute)
        self.sharded = str(getattr(self.accelerator.distributed_type, "value", "")) == "FSDP"
        if self.sharded and not self.accelerator.is_fsdp2:
            raise ValueError("sharded training needs FSDP version 2. Launch with: accelerate launch --fsdp_version 2")
        self.model = model.to(self.device)
        # sharded weights cannot be read outside a training step, so a whole copy is validated
        self.whole = copy.deepcopy(self.model) if self.sharded else self.model
        self.settings = settings
        self.plain = objective = make_objective(self.model, label_smoothing=settings.label_smoothing)
        if isinstance(objective, StreamObjective) and settings.compute.accumulation > 1:
            raise ValueError(
                f"accumulation is {settings.compute.accumulation}, but rows of a stream are read together, for each is "
                "carried on. Choose compute.accumulation=1 and fewer batch.rows."
            )
        optimizer = make_optimizer(objective, settings.optimizer)
        self.choice = choose_step(
            settings.compute, model, device=self.device, num_processes=self.num_processes, capturable=capturable
        )
        self.objective, self.optimizer = self.accelerator.prepare(objective, optimizer)
        self.graphed = None if self.choice.kind == "eager" else self._make_graphed(objective)

    @property
    def device(self) -> torch.device:
        """This process's device."""
        return torch.device(self.accelerator.device)

    @property
    def rank(self) -> int:
        """This process's number."""
        return int(self.accelerator.process_index)

    @property
    def num_processes(self) -> int:
        """How many processes train together."""
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks."""
        return bool(self.accelerator.is_main_process)

    def learn(self, parts: tuple[tuple[Any, bool], ...], *, num_tokens: int, learning_rate: float) -> Tensor:
        """One step; returns this process's summed loss, still on the device."""
        if self.graphed is not None:
            loss = self.graphed(parts[0][0], num_tokens=num_tokens, learning_rate=learning_rate)
            if self.graphed.failure:
                self.choice = StepChoice(kind="eager", reasons=(self.graphed.failure,))
                self.graphed = None
            return loss
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        total = torch.zeros((), device=self.device)
        for number, (batch, counts) in enumerate(parts, start=1):
            with self._syncing(number == len(parts)):
                loss = self.objective(map_tensors(self._move, batch)) * float(counts)
                # processes' gradients are averaged; the mean is over the tokens of all of them
                self.accelerator.backward(loss * (self.num_processes / num_tokens))
            total += loss.detach()
        if (bound := self.settings.optimizer.clip_norm) is not None:
            self.accelerator.clip_grad_norm_(self.objective.parameters(), bound)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def sum(self, value: Tensor) -> float:
        """The sum over all processes, on the host: waits for the device."""
        return float(self.accelerator.reduce(value.double() if self.device.type != "mps" else value, "sum"))

    def any(self, value: bool) -> bool:
        """Whether it is so in any process."""
        if self.num_processes == 1:
            return value
        return self.sum(torch.tensor(float(value), device=self.device)) > 0

    def wait(self) -> None:
        """Until every process is here."""
        self.accelerator.wait_for_everyone()

    def seed(self, seed: int) -> None:
        """Start all random generators; each process its own, so that dropout differs."""
        own = (seed + 1_000_003 * self.rank) % 2**32
        random.seed(own)
        np.random.seed(own)
        torch.manual_seed(own)

    def forked(self) -> AbstractContextManager[Any]:
        """Within, random numbers may be drawn without training's noticing."""
        devices = [self.device] if self.device.type == "cuda" else []
        return torch.random.fork_rng(devices=devices)

    def weights(self) -> dict[str, Tensor]:
        """All weights by the model's own names; whole on the main process."""
        if not self.sharded:
            return self.model.state_dict()
        shards = Shards()
        whole: dict[str, Any] = shards.get_weights(self.objective, options=shards.full)
        return {name.removeprefix("model."): tensor for name, tensor in whole.items()}

    def running_average(self, decay: float | None) -> RunningAverage | None:
        """A copy of the model that follows its weights, where a decay is given."""
        if decay is None:
            return None
        if self.sharded:
            raise ValueError("ema keeps a whole copy of the weights, which sharded training has not. Leave one out.")
        return RunningAverage(self.model, decay)

    def state(self) -> "EngineState":
        """What else must be saved to go on exactly here; every process takes part."""
        rows = {
            name: self.accelerator.gather(tensor[None].to(self.device)).cpu()
            for name, tensor in pack_random(self.device).items()
        }
        if self.sharded:
            shards, optimizer = Shards(), self.optimizer.optimizer
            plain: Mapping[str, Any] = shards.get_optimizer(self.objective, optimizer, options=shards.full)
        else:
            plain = self.optimizer.state_dict()
            # a graph keeps the rate on the device; what is saved is plain
            groups = [group | {"lr": float(group["lr"]), "capturable": False} for group in plain["param_groups"]]
            plain = {**plain, "param_groups": groups}
        tensors, facts = pack_optimizer(plain) if self.is_main else ({}, {})
        return EngineState(optimizer=tensors, facts=facts, random=rows, carried=self._carried())

    def _carried(self) -> dict[str, Tensor]:
        """What is carried from segment to segment, the rows of all processes as the global batch has them."""
        carried = self.plain.take() if isinstance(self.plain, StreamObjective) else []
        return {str(number): self._woven(one).cpu() for number, one in enumerate(carried)}

    def _woven(self, rows: Tensor) -> Tensor:
        """Row k of process r of n becomes row k n + r; only the last rows of some processes may be missing."""
        if self.num_processes == 1:
            return rows
        count = int(self.sum(torch.tensor(float(len(rows)), device=self.device)))
        padded = self.accelerator.pad_across_processes(rows)
        parts: Tensor = self.accelerator.gather(padded[None])
        return parts.transpose(0, 1).flatten(0, 1)[:count]

    def restore(self, state: "EngineState") -> None:
        """Go on where the state was taken; a process that was not there then keeps its seed."""
        if self.graphed is not None:
            self.graphed.drop()
        if self.sharded:
            whole = unpack_optimizer(state.optimizer, state.facts)
            shards = Shards()
            shards.set_optimizer(self.objective, self.optimizer.optimizer, whole, options=shards.full)
        else:
            load_optimizer(self.optimizer, state.optimizer, state.facts)
        if self.rank < len(state.random["torch"]):
            unpack_random({name: rows[self.rank] for name, rows in state.random.items()}, self.device)
        if isinstance(self.plain, StreamObjective):
            carried = [state.carried[str(number)] for number in range(len(state.carried))]
            self.plain.give([rows[self.rank :: self.num_processes].to(self.device) for rows in carried])

    def reshape(self, batch: Any) -> Any:
        """The batch in the shape in which the step takes it."""
        return batch if self.graphed is None else FILL(batch)

    def _make_graphed(self, objective: nn.Module) -> GraphedStep:
        half = self.accelerator.mixed_precision == "bf16"
        # as it was before accelerate wrapped it, whose own autocast keeps copies of the weights
        readable: Callable[[Any], Tensor] = partial(type(objective).forward, objective)
        compiled = torch.compile(readable, dynamic=True) if self.choice.kind == "compiled" else readable

        def run(forward: Callable[[Any], Tensor], batch: Any) -> Tensor:
            # copies of the weights must not outlive the graph's own memory
            with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
                return forward(batch)

        return GraphedStep(
            partial(run, compiled),
            objective,
            self.optimizer.optimizer,
            clip_norm=self.settings.optimizer.clip_norm,
            readable=partial(run, readable),
            reasons=partial(reasons_against_replay, self.model),
            cautious=self.settings.compute.step == "auto",
        )

    def _move(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, non_blocking=True)

    def _syncing(self, last: bool) -> AbstractContextManager[Any]:
        return nullcontext() if last else self.accelerator.no_sync(self.objective)


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """Optimizer, random generators (a row a process) and what is carried, as flat tensors and plain facts."""

    optimizer: Mapping[str, Tensor]
    facts: Mapping[str, Any]
    random: Mapping[str, Tensor]
    carried: Mapping[str, Tensor] = field(default_factory=dict)


def is_main_process() -> bool:
    """Whether this process is the only one, or the first of those that a launcher started."""
    return int(os.environ.get("RANK", "0")) == 0


def make_optimizer(module: nn.Module, settings: AdamSettings | SGDSettings) -> torch.optim.Optimizer:
    """Adam or plain descent, in one kernel where torch has it for these parameters."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    arguments: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    make: Callable[..., torch.optim.Optimizer]
    if isinstance(settings, SGDSettings):
        make, groups = torch.optim.SGD, [{"params": parameters}]
        arguments["momentum"] = settings.momentum
    else:
        make, groups = torch.optim.AdamW, decaying_groups(parameters, settings.weight_decay)
        arguments |= {"betas": (settings.beta1, settings.beta2), "eps": settings.eps}
    try:
        return make(groups, **arguments, fused=True)
    except RuntimeError:
        return make(groups, **arguments)


def decaying_groups(parameters: list[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, vectors do not; one group where nothing decays."""
    vectors = [parameter for parameter in parameters if parameter.ndim < 2]
    if not weight_decay or not vectors or len(vectors) == len(parameters):
        return [{"params": parameters}]
    return [
        {"params": [parameter for parameter in parameters if parameter.ndim >= 2]},
        {"params": vectors, "weight_decay": 0.0},
    ]


def _make_accelerator(settings: ComputeSettings) -> Any:
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState, PartialState
    except ImportError:
        raise ImportError("training needs the accelerate package. Install it with: pip install accelerate") from None
    if PartialState._shared_state and PartialState().num_processes == 1:
        # an earlier run in this process may have chosen another device or precision
        AcceleratorState._reset_state(reset_partial_state=True)
    _select_device(settings.device)
    on_cpu, has_cuda = settings.device.startswith("cpu"), torch.cuda.is_available()
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=_precision(settings, on_cuda=has_cuda and not on_cpu))
    if accelerator.num_processes > 1:
        atexit.unregister(_let_go)
        atexit.register(_let_go)
    return accelerator


def _select_device(device: str) -> None:
    """Check that the device exists, and make a GPU with an index the current one, which accelerate then uses."""
    if device == "auto":
        return
    chosen, num_devices = torch.device(device), torch.cuda.device_count()
    if chosen.type == "cuda" and (chosen.index or 0) >= num_devices:
        seen = f"{num_devices} CUDA devices" if num_devices else "no CUDA device"
        raise ValueError(f"device is {device}, but torch sees {seen}. Choose device auto or cpu.")
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device is mps, but torch sees no such device. Choose device auto or cpu.")
    if chosen.index is not None and chosen.type == "cuda":
        # accelerate places the processes of one run itself, each on its own GPU
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(f"device is {device}, but several processes train. Choose device auto or cuda.")
        torch.cuda.set_device(chosen)


def _let_go() -> None:
    """Before the interpreter ends, a moment for the threads of gloo to drop the tensors they last sent.

    One that drops a tensor later aborts the process: there is no interpreter to tell any more, and destroying the group
    does not end them. https://github.com/pytorch/pytorch/pull/179291
    """
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        time.sleep(0.2)


def _precision(settings: ComputeSettings, *, on_cuda: bool) -> str:
    supported = on_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    if settings.precision == "bf16" and on_cuda and not supported:
        raise ValueError("precision is bf16, but this GPU has no bfloat16. Choose precision auto or fp32.")
    return "bf16" if settings.precision == "bf16" or (settings.precision == "auto" and supported) else "no"
