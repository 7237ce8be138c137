"""Devices, processes and precision, with accelerate. https://huggingface.co/docs/accelerate.

Several processes are started by `torchrun` or `accelerate launch`; the latter also configures sharded weights (FSDP
version 2). No training step waits for the device.
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
from regard.contracts import map_tensors, unsupported_reasons
from regard.training.cuda_graph import SHAPE_PADDER, GraphedStep, StepChoice, choose_step, reasons_against_replay
from regard.training.objectives import ModelObjective, Objective, StreamObjective, unchanged
from regard.training.selection import RunningAverage
from regard.training.settings import AdamSettings, ComputeSettings, SGDSettings, TrainingSettings


class Shards:
    """Gathers sharded weights and optimizer states to full tensors, and shards them again."""

    def __init__(self) -> None:
        # a slow import that only sharded training needs
        from torch.distributed.checkpoint import state_dict

        self.get_weights = state_dict.get_model_state_dict
        self.get_optimizer = state_dict.get_optimizer_state_dict
        self.set_optimizer = state_dict.set_optimizer_state_dict
        self.full = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)


class Engine:
    """Runs training steps of a model on the devices and processes of this run."""

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
        # sharded weights cannot be used outside a training step, so a full copy is validated
        self.full_model = copy.deepcopy(self.model) if self.sharded else self.model
        self.settings = settings
        self.unwrapped_objective = objective = make_objective(self.model, label_smoothing=settings.label_smoothing)
        # here and not in each task, so that the setting applies to tasks of other packages too
        if not settings.compute.fused and isinstance(objective, ModelObjective):
            objective.fuse = unchanged
        if isinstance(objective, StreamObjective) and settings.compute.accumulation > 1:
            raise ValueError(
                f"accumulation is {settings.compute.accumulation}, but the rows of a stream are trained together, as "
                "the state of each row is carried over. Choose compute.accumulation=1 and fewer batch.rows."
            )
        optimizer = make_optimizer(objective, settings.optimizer)
        self.choice = choose_step(
            settings.compute, model, device=self.device, num_processes=self.num_processes, capturable=capturable
        )
        # the wrapper adds what several processes, shards and mixed precision need
        self.objective, self.optimizer = self.accelerator.prepare(objective, optimizer)
        self.graphed = self._make_graphed(objective) if self.choice.uses_graph else None

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return torch.device(self.accelerator.device)

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return int(self.accelerator.process_index)

    @property
    def num_processes(self) -> int:
        """The number of processes."""
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """True in the process that writes files and prints."""
        return bool(self.accelerator.is_main_process)

    def train_step(self, parts: tuple[tuple[Any, bool], ...], *, num_tokens: int, learning_rate: float) -> Tensor:
        """One training step; returns the summed loss of this process as a tensor on the device."""
        if self.graphed is not None:
            loss = self.graphed(parts[0][0], num_tokens=num_tokens, learning_rate=learning_rate)
            if self.graphed.failure:
                self.choice = StepChoice(mode="eager", reasons=(self.graphed.failure,))
                self.graphed = None
            return loss
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        total = torch.zeros((), device=self.device)
        for number, (batch, counts) in enumerate(parts, start=1):
            # gradients are exchanged between processes once, with the last part
            with self._syncing(number == len(parts)):
                # a factor of 0 for a dummy batch: it takes part in the exchange without a gradient
                loss = self.objective(map_tensors(self._move, batch)) * float(counts)
                # gradients are averaged over processes, but the mean is over the tokens of all processes
                self.accelerator.backward(loss * (self.num_processes / num_tokens))
            total += loss.detach()
        if (clip_norm := self.settings.optimizer.clip_norm) is not None:
            self.accelerator.clip_grad_norm_(self.objective.parameters(), clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def sum(self, value: Tensor) -> float:
        """The sum over all processes as a number; waits for the device."""
        # in float64, which mps does not have
        return float(self.accelerator.reduce(value.double() if self.device.type != "mps" else value, "sum"))

    def any(self, value: bool) -> bool:
        """True if the value is true in any process."""
        if self.num_processes == 1:
            return value
        return self.sum(torch.tensor(float(value), device=self.device)) > 0

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        self.accelerator.wait_for_everyone()

    def seed(self, seed: int) -> None:
        """Seed all random generators, differently in each process, so that dropout differs."""
        # a step of its own for each rank, within the 32 bits that numpy accepts
        own = (seed + 1_000_003 * self.rank) % 2**32
        random.seed(own)
        np.random.seed(own)
        torch.manual_seed(own)

    def forked_rng(self) -> AbstractContextManager[Any]:
        """Restore the states of torch's random generators after the block."""
        # fork_rng always includes the generator of the CPU
        devices = [self.device] if self.device.type == "cuda" else []
        return torch.random.fork_rng(devices=devices)

    def weights(self) -> dict[str, Tensor]:
        """All weights by the names of the model; full tensors on the main process."""
        if not self.sharded:
            return self.model.state_dict()
        shards = Shards()
        full: dict[str, Any] = shards.get_weights(self.objective, options=shards.full)
        # names of the objective, whose attribute is the model
        return {name.removeprefix("model."): tensor for name, tensor in full.items()}

    def running_average(self, decay: float | None) -> RunningAverage | None:
        """The running average of the weights, or None without a decay."""
        if decay is None:
            return None
        if self.sharded:
            raise ValueError(
                "ema needs a full copy of the weights, which sharded training does not have. Leave one out."
            )
        return RunningAverage(self.model, decay)

    def state(self) -> "EngineState":
        """The state other than the weights that resuming needs; all processes must call this."""
        # one row per process, because the generators of processes differ
        random_states = {
            name: self.accelerator.gather(tensor[None].to(self.device)).cpu()
            for name, tensor in pack_random(self.device).items()
        }
        if self.sharded:
            shards, optimizer = Shards(), self.optimizer.optimizer
            state: Mapping[str, Any] = shards.get_optimizer(self.objective, optimizer, options=shards.full)
        else:
            state = self.optimizer.state_dict()
            # a graphed step has the learning rate as a tensor; it is saved as a number
            plain = [group | {"lr": float(group["lr"]), "capturable": False} for group in state["param_groups"]]
            state = {**state, "param_groups": plain}
        # a full state of shards is on the main process only
        tensors, groups = pack_optimizer(state) if self.is_main else ({}, {})
        return EngineState(
            optimizer=tensors, optimizer_groups=groups, random=random_states, carried=self._carried_states()
        )

    def _carried_states(self) -> dict[str, Tensor]:
        """The model states carried between segments: all processes' rows in the order of the global batch."""
        carried = self.unwrapped_objective.take() if isinstance(self.unwrapped_objective, StreamObjective) else []
        return {str(number): self._interleave(rows).cpu() for number, rows in enumerate(carried)}

    def _interleave(self, rows: Tensor) -> Tensor:
        """Row k of process r of n becomes row k n + r; some processes may have one row less than others."""
        if self.num_processes == 1:
            return rows
        count = int(self.sum(torch.tensor(float(len(rows)), device=self.device)))
        padded = self.accelerator.pad_across_processes(rows)
        parts: Tensor = self.accelerator.gather(padded[None])
        # (processes, rows, ..) -> (rows, processes, ..): what was padded is at the end, and is cut off
        return parts.transpose(0, 1).flatten(0, 1)[:count]

    def restore(self, state: "EngineState") -> None:
        """Restore a state. Additional processes, which have no saved random state, keep their seed."""
        # the optimizer's tensors are replaced below, and the graphs contain the addresses of the old ones
        if self.graphed is not None:
            self.graphed.drop()
        if self.sharded:
            shards, full = Shards(), unpack_optimizer(state.optimizer, state.optimizer_groups)
            shards.set_optimizer(self.objective, self.optimizer.optimizer, full, options=shards.full)
        else:
            load_optimizer(self.optimizer, state.optimizer, state.optimizer_groups)
        if self.rank < len(state.random["torch"]):
            unpack_random({name: rows[self.rank] for name, rows in state.random.items()}, self.device)
        if isinstance(self.unwrapped_objective, StreamObjective):
            carried = [state.carried[str(number)] for number in range(len(state.carried))]
            # the inverse of _interleave
            self.unwrapped_objective.give([rows[self.rank :: self.num_processes].to(self.device) for rows in carried])

    def reshape(self, batch: Any) -> Any:
        """The batch padded to the shape that the step needs."""
        return batch if self.graphed is None else SHAPE_PADDER(batch)

    def _make_graphed(self, objective: nn.Module) -> GraphedStep:
        bf16 = self.accelerator.mixed_precision == "bf16"
        # without the wrapper of accelerate, whose autocast caches copies of the weights
        readable: Callable[[Any], Tensor] = partial(type(objective).forward, objective)
        compiled = torch.compile(readable, dynamic=True) if self.choice.is_compiled else readable

        def run(forward: Callable[[Any], Tensor], batch: Any) -> Tensor:
            # no cache: cached copies of the weights would lie in the memory of one graph
            with torch.autocast("cuda", torch.bfloat16, enabled=bf16, cache_enabled=False):
                return forward(batch)

        return GraphedStep(
            partial(run, compiled),
            objective,
            self.optimizer.optimizer,
            clip_norm=self.settings.optimizer.clip_norm,
            readable=partial(run, readable),
            reasons=partial(reasons_against_replay, self.model),
            edits=partial(unsupported_reasons, self.model, gradients=True, autocast=True),
            cautious=self.settings.compute.step == "auto",
        )

    def _move(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, non_blocking=True)

    def _syncing(self, last: bool) -> AbstractContextManager[Any]:
        # without it every part would exchange its gradients
        return nullcontext() if last else self.accelerator.no_sync(self.objective)


@dataclass(frozen=True, kw_only=True)
class EngineState:
    """State of the optimizer, the random generators (one row per process) and the carried states of a stream.

    `optimizer_groups` is the JSON part of the optimizer's state.
    """

    optimizer: Mapping[str, Tensor]
    optimizer_groups: Mapping[str, Any]
    random: Mapping[str, Tensor]
    carried: Mapping[str, Tensor] = field(default_factory=dict)


def is_main_process() -> bool:
    """True in a single process, and in the first one of a launcher."""
    return int(os.environ.get("RANK", "0")) == 0


def make_optimizer(module: nn.Module, settings: AdamSettings | SGDSettings) -> torch.optim.Optimizer:
    """AdamW or SGD, fused if torch supports that for these parameters."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    arguments: dict[str, Any] = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    optimizer: Callable[..., torch.optim.Optimizer]
    if isinstance(settings, SGDSettings):
        optimizer, groups = torch.optim.SGD, [{"params": parameters}]
        arguments["momentum"] = settings.momentum
    else:
        optimizer, groups = torch.optim.AdamW, decaying_groups(parameters, settings.weight_decay)
        arguments |= {"betas": (settings.beta1, settings.beta2), "eps": settings.eps}
    try:
        return optimizer(groups, **arguments, fused=True)
    except RuntimeError:
        # torch has no fused kernel for this device or dtype
        return optimizer(groups, **arguments)


def decaying_groups(parameters: list[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups with weight decay for matrices only; a single group if there is nothing to separate."""
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
    # accelerate keeps the device and precision of an earlier run in this process; these private names remove them, and
    # without the names it refuses other settings itself
    reset = getattr(AcceleratorState, "_reset_state", None)
    if reset is not None and getattr(PartialState, "_shared_state", None) and PartialState().num_processes == 1:
        reset(reset_partial_state=True)
    _select_device(settings.device)
    on_cpu, has_cuda = settings.device.startswith("cpu"), torch.cuda.is_available()
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=_precision(settings, on_cuda=has_cuda and not on_cpu))
    if accelerator.num_processes > 1:
        # once, however many runs this process trains
        atexit.unregister(_wait_for_gloo)
        atexit.register(_wait_for_gloo)
    return accelerator


def _select_device(device: str) -> None:
    """Check that the device exists, and make a GPU with an index the current one, which accelerate then uses."""
    if device == "auto":
        return
    chosen, num_devices = torch.device(device), torch.cuda.device_count()
    if chosen.type == "cuda" and (chosen.index or 0) >= num_devices:
        available = f"{num_devices} CUDA devices" if num_devices else "no CUDA device"
        raise ValueError(f"device is {device}, but torch sees {available}. Choose device auto or cpu.")
    if chosen.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device is mps, but torch sees no such device. Choose device auto or cpu.")
    if chosen.index is not None and chosen.type == "cuda":
        # accelerate places the processes of one run itself, each on its own GPU
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(f"device is {device}, but several processes train. Choose device auto or cuda.")
        torch.cuda.set_device(chosen)


def _wait_for_gloo() -> None:
    """Give the threads of gloo time to release the tensors they sent before the interpreter exits.

    A tensor released after that aborts the process, and destroying the process group does not stop the threads.
    https://github.com/pytorch/pytorch/pull/179291
    """
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        time.sleep(0.2)


def _precision(settings: ComputeSettings, *, on_cuda: bool) -> str:
    # emulated bfloat16 is slower than float32
    supported = on_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    if settings.precision == "bf16" and on_cuda and not supported:
        raise ValueError("precision is bf16, but this GPU has no bfloat16. Choose precision auto or fp32.")
    return "bf16" if settings.precision == "bf16" or (settings.precision == "auto" and supported) else "no"
