"""Every entry of a table of systems, and each of its variants, as test cases."""

import pytest


def with_variants(table):
    return [
        pytest.param(name, change, id="-".join([name, *map(str, change.values())]))
        for name, entry in table.items()
        for change in ({}, *entry.variants)
    ]
