"""Numbers are rounded as a browser rounds them."""

from regard._utils import fixed


def test_halves_are_rounded_away_from_zero():
    assert [fixed(value, 2) for value in (0.125, 0.375, -0.125, 0.16610591)] == ["0.13", "0.38", "-0.13", "0.17"]
    # the float 1.115 is less than 1.115
    assert fixed(1.115, 2) == "1.11"


def test_zero_has_no_sign_and_large_numbers_have_no_exponent():
    assert [fixed(-0.001, 2), fixed(-0.0, 0), fixed(1e22, 1)] == ["0.00", "0", "10000000000000000000000.0"]
