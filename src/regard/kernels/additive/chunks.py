"""Scores are formed some at a time: which rows, queries and keys go together.

Chunks are of bounded size, so that memory grows with the length alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

CELLS = 2**25
"""Scores formed at a time: 64 MiB in half precision."""
MOST_ROWS = 2**16 - 1
"""What a GPU counts along the axes of a launch but the first."""
MOST_QUERIES, MOST_KEYS = 4096, 8192
"""Of a long row: a query's scores lie in one program's registers."""


@dataclass(frozen=True)
class Chunk:
    """Queries and keys of some rows, whose scores are formed together."""

    rows: slice
    queries: slice
    keys: slice

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many rows, queries and keys."""
        rows, queries, keys = (part.stop - part.start for part in (self.rows, self.queries, self.keys))
        return rows, queries, keys


def chunks(num_rows: int, num_queries: int, num_keys: int, most_rows: int) -> Iterator[Chunk]:
    """All pairs, keys innermost: several rows at once where they are short, part of one where it is long."""
    keys = min(num_keys, MOST_KEYS)
    queries = min(num_queries, max(CELLS // keys, 1))
    if num_queries * num_keys > CELLS:
        queries = min(queries, MOST_QUERIES)
    rows = 1
    if (queries, keys) == (num_queries, num_keys):
        rows = max(min(CELLS // (queries * keys), most_rows), 1)
    for row in range(0, num_rows, rows):
        for query in range(0, num_queries, queries):
            for key in range(0, num_keys, keys):
                yield Chunk(
                    slice(row, min(row + rows, num_rows)),
                    slice(query, min(query + queries, num_queries)),
                    slice(key, min(key + keys, num_keys)),
                )
