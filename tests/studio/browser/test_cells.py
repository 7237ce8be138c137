"""Every number that a screen prints is the exact number, rounded to the digits that are printed.

REGARD_STUDIO_CELLS is the number of cells (200 without it), REGARD_STUDIO_SEED chooses them.
"""

import os
import random

import pytest

from tests.studio.browser.screen_cells import Screens

pytestmark = pytest.mark.browser

CELLS = int(os.environ.get("REGARD_STUDIO_CELLS", "200"))
SEED = int(os.environ.get("REGARD_STUDIO_SEED", "0"))
CELLS_PER_VIEW = 30
SCREENS = ("watch", "swap", "heads", "compute", "compare", "watch", "learn")


def test_printed_cells_are_the_exact_numbers(new_tab):
    screens, chance, cells = Screens(new_tab(), SEED), random.Random(SEED), []
    while len(cells) < CELLS:
        for name in SCREENS:
            printed = getattr(screens, name)()
            cells += chance.sample(printed, min(len(printed), CELLS_PER_VIEW))
    wrong = [cell for cell in cells[:CELLS] if not cell.is_exact]
    assert wrong == [], f"{len(wrong)} of {CELLS} cells"
    assert screens.tab.errors == []
