"""Seeds and the checks of the sampling call; nothing here imports torch."""

import subprocess
import sys

import pytest

from r1flow.errors import UserError
from r1flow.sampling import load, seed_of


def test_a_seed_is_a_function_of_its_three_names_and_of_nothing_else() -> None:
    assert seed_of(1, "3f2a91c07b1d", 0) == 1211652362427040497
    distinct = {seed_of(s, p, i) for s in (1, 11) for p in ("1", "11", "") for i in range(50)}
    assert len(distinct) == 2 * 3 * 50


def test_seeds_fit_a_signed_64_bit_column() -> None:
    assert all(0 <= seed_of(0, "p", i) < 2**63 for i in range(1000))


@pytest.mark.parametrize(
    ("engine", "batch_size", "named"),
    [("vllm", 8, "engine"), ("r1flow", 0, "batch_size"), ("r1flow", 8, "config.json")],
)
def test_a_bad_call_is_refused_by_name_before_anything_is_loaded(tmp_path, engine, batch_size, named) -> None:
    with pytest.raises(UserError, match=named):
        load(tmp_path, engine, batch_size)


def test_the_call_is_importable_without_torch() -> None:
    code = "import sys, r1flow.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
