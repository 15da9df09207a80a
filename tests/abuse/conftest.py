"""Every test that takes a tier, or judges a solution, runs in each tier that holds here; slow: the second."""

from functools import partial

import pytest
from judging import Judge, judged

from r1flow import sandbox
from r1flow.sandbox import Tier

NONE = pytest.param(None, marks=pytest.mark.skip(reason="no sandbox holds here; apt-get install bubblewrap"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "tier" in metafunc.fixturenames:
        first, *others = sandbox.tiers() or [NONE]
        metafunc.parametrize("tier", [first, *(pytest.param(tier, marks=pytest.mark.slow) for tier in others)])


@pytest.fixture
def judge(tier: Tier) -> Judge:
    return partial(judged, tier=tier)
