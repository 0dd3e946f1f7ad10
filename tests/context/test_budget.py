"""Budget shares: never exceeded, floors kept, monotone, and unused shares passed on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memorist.context.budget import LAYERS, Layer, share

WANTS = st.lists(st.integers(0, 20_000), min_size=len(LAYERS), max_size=len(LAYERS))


@given(budget=st.integers(0, 20_000), wants=WANTS)
def test_shares_exceed_neither_the_budget_nor_the_need(budget: int, wants: list[int]) -> None:
    """The sum is within the budget, and no layer gets more than it can use."""
    given_ = share(budget, wants)
    assert sum(given_) <= budget
    assert all(0 <= got <= want for got, want in zip(given_, wants, strict=True))


@given(budget=st.integers(0, 20_000), wants=WANTS)
def test_floors_are_kept(budget: int, wants: list[int]) -> None:
    """A layer that needs its floor gets it, whatever the others want."""
    for layer, got, want in zip(LAYERS, share(budget, wants), wants, strict=True):
        assert got >= min(want, int(layer.floor * budget))


@given(budget=st.integers(0, 20_000), more=st.integers(0, 5_000), wants=WANTS)
def test_a_larger_budget_reduces_no_share(budget: int, more: int, wants: list[int]) -> None:
    """Monotone in the budget, per layer."""
    before, after = share(budget, wants), share(budget + more, wants)
    assert all(b <= a for b, a in zip(before, after, strict=True))


def test_one_more_token_reduces_no_share() -> None:
    """At 20 tokens, six floors grow at once; layers without a floor must not shrink."""
    for wants in ([5_000] * len(LAYERS), [50 * index for index in range(len(LAYERS))]):
        before = share(0, wants)
        for budget in range(1, 150):
            after = share(budget, wants)
            assert all(b <= a for b, a in zip(before, after, strict=True)), budget
            before = after


@given(budget=st.integers(0, 20_000), wants=WANTS)
def test_nothing_is_wasted_while_a_layer_needs_more(budget: int, wants: list[int]) -> None:
    """The remainder is less than one more step for all."""
    given_ = share(budget, wants)
    if sum(wants) > budget:
        assert budget - sum(given_) <= sum(layer.weight for layer in LAYERS)
    else:
        assert given_ == wants


def test_the_rest_is_shared_by_weight() -> None:
    layers = (Layer("a", 0.1, 1), Layer("b", 0.0, 3))
    assert share(1000, [5000, 5000], layers) == [100 + 225, 675]


def test_unused_shares_are_passed_on() -> None:
    layers = (Layer("a", 0.5, 1), Layer("b", 0.0, 1))
    assert share(1000, [10, 5000], layers) == [10, 990]
    assert share(0, [10, 10], layers) == [0, 0]
