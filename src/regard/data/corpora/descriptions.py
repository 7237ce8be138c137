"""What the inputs and outputs of a corpus are, in English and Chinese."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.contracts import Description, Title

CONTINUATION = Title(en="its continuation", zh="文本的续写")
CLASS = Title(en="its class", zh="文本的类别")
MAX_LANGUAGES = 3
"""Languages that a description names; of more it gives the number."""


def description_of(corpus: Any) -> Description:
    """The optional attribute `description` of a corpus, or a general one."""
    description = getattr(corpus, "description", None)
    if isinstance(description, Description):
        return description
    return Description(
        reads=Title(en="inputs like those of its training data", zh="与训练数据同类的输入"),
        writes=Title(en="the output for each", zh="对应的输出"),
    )


def language_name(code: str) -> Title:
    """The name of a language, such as English and 英语 for en; an unknown code is its own name."""
    try:
        # a late import: of the whole package, only dates and descriptions need babel
        from babel import Locale, UnknownLocaleError
    except ImportError:
        return Title(en=code, zh=code)
    try:
        locale = Locale.parse(code)
    except (ValueError, UnknownLocaleError):
        return Title(en=code, zh=code)
    # Chinese brackets have no space before them
    chinese = (locale.get_display_name("zh") or code).replace(" (", "（").replace(")", "）")
    return Title(en=locale.get_display_name("en") or code, zh=chinese)


def languages_name(codes: Sequence[str]) -> Title:
    """Several languages: their names, or their number."""
    if len(codes) > MAX_LANGUAGES:
        return Title(en=f"{len(codes)} languages", zh=f"{len(codes)} 种语言")
    names = [language_name(code) for code in codes]
    *first, last = [name.en for name in names]
    return Title(en=f"{', '.join(first)} or {last}" if first else last, zh="、".join(name.zh for name in names))


def describe_pairs(subject: Title, languages: tuple[str, str]) -> Description:
    """A corpus of translations: `subject` is what its sources are, apart from their language."""
    source, target = (language_name(code) if code else None for code in languages)
    return Description(
        reads=Title(
            en=subject.en if source is None else f"{subject.en} in {source.en}",
            zh=subject.zh if source is None else f"{source.zh}{subject.zh}",
        ),
        writes=Title(
            en="its translation" if target is None else f"its translation into {target.en}",
            zh="译文" if target is None else f"{target.zh}译文",
        ),
        source_language=languages[0],
        target_language=languages[1],
    )


def like_file(path: str, *, en: str = "text like that", zh: str = "文本") -> Title:
    """Text of the user, which is known by the name of its file only."""
    name = Path(path).name
    return Title(en=f"{en} of {name}", zh=f"与 {name} 同类的{zh}")
