"""Every entry of a table of systems, and each of its variants, as test cases of a small size."""

from dataclasses import fields

import pytest
import torch

# a check on a GPU has a separate id, which is skipped without a GPU
ON_CUDA = ("check_cuda_equals_cpu", "check_no_synchronisation")


def with_variants(table):
    """Entries and variants; run-time checks of shapes, two thirds of the time, are for the entries alone."""
    return [
        pytest.param(
            name,
            change,
            id="-".join([name, *map(str, change.values())]),
            marks=pytest.mark.unchecked if change else (),
        )
        for name, entry in table.items()
        for change in ({}, *entry.variants)
    ]


def each(checks):
    """Every check as a test case."""
    return pytest.mark.parametrize(
        "check",
        [
            pytest.param(check, id=check.__name__, marks=pytest.mark.cuda if check.__name__ in ON_CUDA else ())
            for check in checks
        ],
    )


def small_config(entry, sizes, change):
    """The sizes that the config has, then the changes of the variant; all others as published."""
    names = {field.name for field in fields(entry.config)}
    return entry.config(**{key: value for key, value in sizes.items() if key in names} | change)


def assert_table_is_sound(table):
    """In history order, and every config has a default for each field."""
    years = [entry.year for entry in table.values()]
    assert years == sorted(years)
    assert all(entry.config() == entry.config() for entry in table.values())


def maker(make_case):
    """`make(name, change, dtype)`: a small model, for tests of other packages."""

    def make(name, change, dtype=torch.float64):
        return make_case(name, change).make(dtype)

    return make
