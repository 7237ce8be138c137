"""What can be done with a model: one folder a task, with equal file names, and what the tasks share."""

from regard.tasks.attention_sites import (
    align_to_tokens,
    batch_element,
    count_numbers,
    describe_site,
    drop_empty_keys,
    find_sites,
    first_key,
    first_keys,
    join_weights,
    name_of,
    token_axis,
)

__all__ = [
    "align_to_tokens",
    "batch_element",
    "count_numbers",
    "describe_site",
    "drop_empty_keys",
    "find_sites",
    "first_key",
    "first_keys",
    "join_weights",
    "name_of",
    "token_axis",
]
