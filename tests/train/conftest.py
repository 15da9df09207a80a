"""What holds for all tests that train."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def no_look_at_what_was_imported() -> None:
    """A training of accelerate's ends with a look at all objects for garbage: 0.4 s each where TRL is imported."""
    gc.freeze()
