"""What a reader may change of an experiment: the numbers among the arguments of its `run`, each within a range.

The range follows from the default, so that a new experiment needs no edit here: about a quarter to twice of it. Where
that does not fit, the experiment has `bounds`.
"""

import inspect
import math
from collections.abc import Mapping

from regard.experiments.lib import Experiment
from regard.studio.lessons import fill_settings
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import Control

SEED = "seed"
REPETITIONS = ("seeds", "repeats")
"""Arguments whose values are repetitions: fewer than two have no standard deviation."""
RANGES = {SEED: (0.0, 9999.0), "seeds": (2.0, 5.0)}
DIVISORS = sorted(
    {2**power for power in range(20)} | {part * 10**power for power in range(8) for part in (1, 2, 5)}, reverse=True
)
"""Steps of a slider over whole numbers, the largest first."""

LABELS = {
    "seed": ("seed", "随机种子"),
    "seeds": ("number of seeds", "种子个数"),
    "repeats": ("repetitions", "重复次数"),
    "steps": ("training steps", "训练步数"),
    "epochs": ("epochs", "训练轮数"),
    "size": ("size of the vectors", "向量维度"),
    "hidden_size": ("hidden size", "隐藏维度"),
    "head_size": ("head size", "每个头的维度"),
    "num_heads": ("heads", "头数"),
    "num_layers": ("layers", "层数"),
    "vocab_size": ("vocabulary size", "词表大小"),
    "length": ("length of the sequences", "序列长度"),
    "num_symbols": ("symbols", "符号数"),
    "num_positions": ("positions", "位置数"),
    "num_queries": ("queries", "查询数"),
    "num_keys": ("keys", "键数"),
    "num_values": ("values", "值的个数"),
    "num_words": ("words", "词数"),
    "num_pairs": ("training pairs", "训练句对数"),
    "num_test": ("test pairs", "测试句对数"),
    "characters": ("characters of text", "文本字符数"),
    "points": ("points in a sample", "样本点数"),
    "noise": ("standard deviation of the noise", "噪声的标准差"),
    "learning_rate": ("learning rate", "学习率"),
    "batch": ("batch size", "批大小"),
    "batch_size": ("batch size", "批大小"),
    "turns": ("turns of timing", "计时轮数"),
    "rounds": ("turns of timing", "计时轮数"),
    "tokens": ("tokens per measurement", "每次测量的词元数"),
    "examples": ("test examples", "测试样例数"),
    "orders": ("longest n-gram", "n-gram 的最大长度"),
    "equal_order": ("n of the comparison at equal size", "同等大小比较中的 n"),
    "frame": ("length of the frame", "外框长度"),
    "block": ("length of the shifted pattern", "平移片段的长度"),
    "max_adjectives": ("most adjectives before a noun", "名词前最多几个形容词"),
}
"""Arguments in words, English and Chinese; an experiment may have others in its `chinese`, by their names."""


def controls_of(experiment: Experiment) -> tuple[Control, ...]:
    """A control for every argument that is a number and has a range."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(experiment.run).parameters.items()}
    controls = []
    for name, default in defaults.items():
        # a bool is an int to Python, and picks a variant
        if isinstance(default, bool) or not isinstance(default, int | float):
            continue
        low, high, step = range_of(name, default, experiment.bounds.get(name, RANGES.get(name)))
        if low < high:
            controls.append(
                Control(
                    name=name, label=label_of(experiment, name), low=low, high=high, step=step, value=float(default)
                )
            )
    return tuple(controls)


def range_of(name: str, default: float, bounds: tuple[float, float] | None) -> tuple[float, float, float]:
    """Lowest value, highest value and step of an argument; equal ones if no range follows from its default."""
    if bounds is not None:
        # a default outside declared bounds is still allowed
        low, high = min(bounds[0], default), max(bounds[1], default)
        return low, high, 1.0 if isinstance(default, int) else (high - low) / 50
    # zero and negative numbers have no quarter below them
    if default <= 0 or not math.isfinite(default):
        return default, default, 1.0
    if isinstance(default, float):
        return default / 4, default * 2, default / 20
    # the largest step that leads to the default and to twice of it, in eight or more steps each
    step = next(part for part in DIVISORS if default % part == 0 and (part <= default / 8 or part == 1))
    lowest = min(2, default) if name in REPETITIONS else 1
    low = max(lowest, default - step * (3 * default // (4 * step)))
    return float(low), 2.0 * default, float(step)


def label_of(experiment: Experiment, name: str) -> LocalizedText:
    """An argument in words; without Chinese ones, its name as code."""
    english, chinese = LABELS.get(name, (name.replace("_", " "), f"`{name}`"))
    return LocalizedText(en=english, zh=experiment.chinese.get(name, chinese))


def complete_settings(experiment: Experiment, settings: Mapping[str, float]) -> dict[str, float]:
    """A value for every control, within its range; ValueError for a name or a value that is not offered."""
    return fill_settings(controls_of(experiment), settings)


def arguments_of(experiment: Experiment, settings: Mapping[str, float]) -> dict[str, int | float]:
    """The settings with the types that `run` takes."""
    parameters = inspect.signature(experiment.run).parameters
    return {name: type(parameters[name].default)(value) for name, value in settings.items()}
