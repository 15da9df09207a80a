"""Pairs of a gold and an answer, generated from rules: the right ones are paid for, and none of the near ones."""

import benchmark

spellings = benchmark.load("spellings")


def test_right_answers_are_paid_in_their_usual_spellings_and_no_wrong_ones() -> None:
    found = list(spellings.pairs(300, seed=1))
    graded = list(zip(found, spellings.paid(found), strict=True))
    assert not [pair for pair, pays in graded if pays and not pair.right]
    right = [pays for pair, pays in graded if pair.right]
    assert sum(right) >= spellings.LEAST * len(right)


def test_pairs_are_the_same_for_a_seed_and_of_all_kinds() -> None:
    found = list(spellings.pairs(200, seed=5))
    assert found == list(spellings.pairs(200, seed=5)) != list(spellings.pairs(200, seed=6))
    assert {pair.kind for pair in found} == set(spellings.MAKERS)
    assert len({pair.right for pair in found if pair.kind == "matrix"}) == 2
    assert {pair.half for pair in found} == set(spellings.HALVES)
