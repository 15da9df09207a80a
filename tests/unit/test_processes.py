"""Work side by side: in order, no more of it held than is said; errors come back. Kills: tests/train/test_curate.py."""

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from r1flow.core.processes import MOST, in_order, ordered_map, worth


class Lazy:
    """An executor that does its tasks at once and remembers how many it was given."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, work, item) -> Future:
        self.given += 1
        done: Future = Future()
        done.set_result(work(item))
        return done


def test_items_are_taken_as_they_are_needed_and_results_keep_their_order() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    lazy = Lazy()
    found = in_order(lazy, str, items(), ahead=7)
    assert not taken
    assert [next(found) for _ in range(20)] == [str(number) for number in range(20)]
    assert lazy.given == len(taken) == 27
    assert list(found) == [str(number) for number in range(20, 100)]


def test_an_error_in_a_process_is_the_callers() -> None:
    with pytest.raises(ValueError, match="invalid literal"), ordered_map(2) as each:
        list(each(int, ["1", "2", "x", "4"]))


def test_one_process_more_for_so_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    assert [worth(samples) for samples in (1, 5_999, 6_000, 18_000, 10**7)] == [0, 1, 2, 6, MOST]
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {5, 7})
    assert worth(10**7) == 2, "of the cores that are ours"
    with ordered_map(1) as each:
        assert each is map
