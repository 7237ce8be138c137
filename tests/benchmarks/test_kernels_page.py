"""docs/kernels.md equals the page of the recorded figures."""

from benchmarks import kernels_page


def test_the_page_is_up_to_date():
    assert kernels_page.PAGE.read_text() == kernels_page.page(), "run: python -m benchmarks.kernels_page"


def test_lengths_are_in_order():
    counts, forward, both, memory = zip(*kernels_page.by_length(), strict=True)
    assert list(counts) == sorted(counts)
    assert all(one < other for one, other in zip(forward, both, strict=True))
    # linear, except for a constant
    assert memory[-1] / memory[-2] < 1.05 * counts[-1] / counts[-2]
