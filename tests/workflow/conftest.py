"""One small run of the whole recipe, shared by all tests that look at its outcome."""

import shutil

import pytest
from checkout import Checkout, checkout, wait_for_delivery
from filelock import FileLock


@pytest.fixture
def empty_checkout(tmp_path) -> Checkout:
    return checkout(tmp_path)


@pytest.fixture(scope="session")
def micro(tmp_path_factory, request) -> Checkout:
    """A finished run of r1_micro, and in reads/ the leaves that its stages read; tests that change it take a copy.

    One for all of pytest-xdist's workers: who needs it first computes it, the others wait, and each has its own copy.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if hasattr(request.config, "workerinput") else own
    made, finished = Checkout(shared / "micro"), shared / "micro.finished"
    with FileLock(shared / "micro.lock"):
        if not finished.exists():
            checkout(made.folder)
            (made.folder / "reads").mkdir()
            done = made.snakemake(hooks={"HOOK_READS": str(made.folder / "reads")})
            assert done.returncode == 0, done.stdout + done.stderr
            wait_for_delivery(made.folder)
            finished.touch()
        return made if own == shared else Checkout(shutil.copytree(made.folder, own / "micro", symlinks=True))


@pytest.fixture
def copy(micro, tmp_path) -> Checkout:
    """The finished run in a folder that a test may change."""
    shutil.copytree(micro.folder, tmp_path / "run", symlinks=True)
    return Checkout(tmp_path / "run")
