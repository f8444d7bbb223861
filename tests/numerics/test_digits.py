"""Two numbers that differ read differently, in no more digits than that takes."""

from workbench.numerics.digits import apart, digits_apart


def test_digits_grow_until_the_numbers_differ() -> None:
    assert apart(0.99998, 1.0, 4) == "0.99998"
    assert apart(1.0004, 1.0, 3) == "1.0004"
    assert apart(2.5, 1.0, 3) == "2.5"
    assert digits_apart(1.74936, 1.749352, 6) == 6
    assert digits_apart(1.7493524, 1.7493496, 6) == 7
    assert digits_apart(1.0, 1.0, 6) == 17
