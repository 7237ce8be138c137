"""You should wear shoes: a language model generates word by word, and each word joins the next input."""

from collections.abc import Mapping, Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import EOS
from regard.decoding import Generation, generate
from regard.models.language_modeling import NGram, NGramConfig
from regard.studio.lessons.blocks import LessonEntry, both, control, formula, matrix, number, question, same, text
from regard.studio.schema.pages import LessonBlock

LINES = (
    "You should wear shoes",
    "You should wear shoes",
    "You should wear shoes",
    "You may wear shoes",
    "You should wear a coat",
    "You should eat an apple",
    "You may eat an apple",
)
"""The text that the model is counted on."""
END = "<eos>"
WORDS = (END, *dict.fromkeys(word for line in LINES for word in line.split()))
"""The vocabulary; the id of a word is its position plus that of <eos>, the last special token."""
PROMPT, WRONG = ("You", "should"), "eat"
LIMIT, SAMPLES = 6, 4

CONTROLS = (
    control("order", both("Words of an n-gram, n", "n-gram 的 n"), low=2.0, high=4.0, step=1.0, value=3.0),
    control("temperature", both("Temperature of the samples", "采样温度"), low=0.25, high=2.0, step=0.25, value=1.0),
)

DISTINCT = tuple(dict.fromkeys(LINES))
INTRODUCTION = text(
    f"An n-gram model is counted here on {len(LINES)} lines: {'; '.join(DISTINCT)} (the first one "
    f"{LINES.count(LINES[0])} times). "
    'It is a real language model, only a small one. Its input is "You should".',
    f"这里用 {len(LINES)} 行文字统计出一个 n-gram 模型：{'；'.join(DISTINCT)}（第一句出现 "
    f"{LINES.count(LINES[0])} 次）。它是真正的语言模型，只是很小。输入是“You should”。",
)
FORMULA = formula(r"P(x_1, \dots, x_T) = \prod_{t=1}^{T} P(x_t \mid x_1, \dots, x_{t-1})")
CLOSING = text(
    f'The loop ends with "{END}" or at a limit of words. It is serial: a word cannot be computed before the one that '
    "precedes it. In training this is avoided by teacher forcing: the input has the right words, so all positions are "
    "computed at once, and a wrong prediction does not spoil the next input.",
    f"循环在出现“{END}”或达到长度上限时结束。它是串行的：前一个词没有算出来，就算不出后一个词。"
    "训练时用教师强制避开这一点：输入的都是正确的词，所有位置可以同时计算，一次预测错误也不会影响下一步的输入。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The rounds of greedy generation, a wrong word, and samples."""
    model = count_model(int(settings["order"]))
    # the prompt, and the same with a wrong word
    (right, log_probs), (wrong, _) = continue_texts(model, [PROMPT, (*PROMPT, WRONG)])
    rounds = [(*PROMPT, *right[:count]) for count in range(len(right))]
    return [
        INTRODUCTION,
        second_input(rounds),
        matrix(
            both("P(next word | input), one row per round", "各轮的 P(下一个词 | 输入)"),
            [" ".join(words) for words in rounds],
            WORDS,
            next_words(model, rounds),
        ),
        FORMULA,
        product(right, log_probs),
        wrong_word(right, [WRONG, *wrong]),
        samples(model, settings["temperature"]),
        CLOSING,
    ]


@cache
def count_model(order: int) -> NGram:
    """The n-gram model of the lines."""
    stream = [token for line in LINES for token in (*ids_of(line.split()), EOS)]
    return NGram.count(torch.tensor(stream), NGramConfig(vocab_size=EOS + len(WORDS), order=order))


def ids_of(words: Sequence[str]) -> list[int]:
    """Token ids."""
    return [EOS + WORDS.index(word) for word in words]


def continue_texts(
    model: NGram, prompts: Sequence[Sequence[str]], *, temperature: float = 0.0
) -> list[tuple[list[str], tuple[float, ...]]]:
    """The new words of each prompt with their log-probabilities."""
    options = Generation(max_tokens=LIMIT, temperature=temperature)
    results = generate(model, [ids_of(words) for words in prompts], options)
    return [([WORDS[token - EOS] for token in result.ids], result.log_probs or ()) for result in results]


def next_words(model: NGram, rounds: Sequence[Sequence[str]]) -> Float[Tensor, "rounds vocab"]:
    """The distribution of the next word in every round."""
    # the last round contains the others: one pass, then the positions after each round's input
    logits = model(torch.tensor([ids_of(rounds[-1])]))[0, len(PROMPT) - 1 :]
    return logits.softmax(dim=-1)[:, EOS:]


def second_input(rounds: Sequence[Sequence[str]]) -> LessonBlock:
    """What is the input of the second round?"""
    first = rounds[1][-1]
    choices = [" ".join(PROMPT), first, " ".join((*PROMPT, first))]
    return question(
        both(
            f'The first round gives "{first}". What is the input of the second round?',
            f"第一轮得到“{first}”。第二轮的输入是什么？",
        ),
        list(map(same, choices)),
        choices.index(" ".join(rounds[1])),
        both(
            "The new word is appended to the input. Two consecutive inputs differ by one word.",
            "新词接在输入之后。前后两轮的输入只相差一个词。",
        ),
    )


def product(words: Sequence[str], log_probs: Sequence[float]) -> LessonBlock:
    """The probability of the continuation is a product."""
    probabilities = torch.tensor(log_probs).exp()
    factors = " × ".join(map(number, probabilities))
    whole, continuation = number(probabilities.prod(), 3), " ".join(words)
    return text(
        f"Each round takes the most probable word. The probability of the continuation, {continuation}, is the product "
        f"{factors} = {whole}.",
        f"每一轮取概率最大的词。续写“{continuation}”的概率是各轮概率之积：{factors} = {whole}。",
    )


def wrong_word(right: Sequence[str], wrong: Sequence[str]) -> LessonBlock:
    """One wrong word, and the words after it."""
    # without the word that was exchanged, and without <eos>, which ends every line
    before, after = ([word for word in words[1:] if word != END] for words in (right, wrong))
    still = sum(word in after for word in before)
    return question(
        both(
            f'Suppose the first round gives "{WRONG}" by mistake. How many of the later words ({", ".join(before)}) '
            "are "
            "still generated?",
            f"假如第一轮误选了“{WRONG}”，原先后面的词（{'、'.join(before)}）还会生成几个？",
        ),
        [same(str(count)) for count in range(len(before) + 1)],
        still,
        both(
            f"The text becomes: {' '.join((*PROMPT, *wrong))}. Every later round reads the wrong word.",
            f"文本变成：{' '.join((*PROMPT, *wrong))}。之后每一轮都读到这个错词，这就是“一步错，步步错”。",
        ),
    )


def samples(model: NGram, temperature: float) -> LessonBlock:
    """Continuations drawn from the distribution."""
    drawn = [" ".join(words) for words, _ in continue_texts(model, [PROMPT] * SAMPLES, temperature=temperature)]
    return text(
        f"Drawn from the distribution at temperature {temperature:g} instead: {'; '.join(drawn)}.",
        f"改为按分布采样（温度 {temperature:g}）：{'；'.join(drawn)}。",
    )


LESSON = LessonEntry(
    title=both("The generation loop: You should wear shoes", "文本生成的循环：You should wear shoes"),
    summary=both(
        "Each new word joins the input of the next round, so one wrong word changes all that follow.",
        "每个新词都加入下一轮的输入，所以一个词错了，后面都会变。",
    ),
    controls=CONTROLS,
    build=build,
    code=(generate, NGram),
    experiment="own_outputs",
)
