"""A full disk, a folder that can't be written: a line that says so, nothing half-written, and the run goes on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Checkout, checkout
from test_kills import edges

from r1flow import manifest


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of its own with little room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=14m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_a_line_and_the_same_command_goes_on_once_there_is_room(small_disk, micro):
    run: Checkout = checkout(small_disk)
    done = run.snakemake()
    assert done.returncode != 0 and "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr.replace("    | Traceback", "")  # but in a failed stage's log
    for folder in {path.parent for path in small_disk.glob("results/**/manifest.json")}:
        assert manifest.broken(folder) is None
    subprocess.run(["mount", "-o", "remount,size=1g", str(small_disk)], check=True)
    done = run.snakemake()
    assert done.returncode == 0, done.stderr
    assert edges(small_disk) == edges(micro.folder)


def test_a_results_folder_that_cannot_be_made_is_a_line_and_nothing_is_lost(copy):
    """A file in the folder's place: what root can't write either."""
    (copy.folder / "results/r1_micro/report").rename(copy.folder / "kept")
    (copy.folder / "results/r1_micro/report").write_text("in the way")
    done = copy.snakemake()
    assert done.returncode != 0 and "results/r1_micro/report" in done.stderr
    (copy.folder / "results/r1_micro/report").unlink()
    assert copy.snakemake().returncode == 0
    assert (
        edges(copy.folder)["results/r1_micro/report/manifest.json"] == (copy.folder / "kept/manifest.json").read_bytes()
    )
