"""Live runs beside one another, and beside the commands that remove or replace results."""

import os
import resource
from pathlib import Path
from typing import IO

import pytest

from r1flow.artifacts.locks import LIVE, PINNED, hold, hold_run, is_held, live_lock, refuse_live, waited_for
from r1flow.core.errors import UserError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs_of_different_names_are_live_side_by_side_and_one_name_once() -> None:
    first, second = hold_run("slow"), hold_run("fast")
    with pytest.raises(UserError, match=r"^the run slow is live already; give this one .* run=… \(process \d+\); wait"):
        hold_run("slow")
    for lock in first:
        lock.close()
    assert hold_run("slow") and all(not lock.closed for lock in second)


def test_what_removes_results_waits_for_the_last_run_and_keeps_new_ones_out(folder: Path) -> None:
    locks = [*hold_run("slow"), *hold_run("fast")]
    while locks:
        with pytest.raises(UserError, match=r"^the run (slow|fast) is live in this folder \(process \d+\)"):
            refuse_live(folder)
        for _ in range(2):
            locks.pop().close()
    command = refuse_live(folder)
    with pytest.raises(UserError, match=r"^a command is changing this folder's results"):
        hold_run("slow")
    command.close()
    assert hold_run("slow")


def test_a_lock_that_can_only_be_read_is_asked_as_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's project was listed without its runs, and `r1flow watch` ended."""
    written = Path.open

    def read(path: Path, mode: str = "r") -> IO[str]:
        if mode != "r":
            raise PermissionError(13, "Permission denied", str(path))
        return written(path, mode)

    lock = hold(LIVE)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(Path, "open", read)
    assert is_held(LIVE)
    lock.close()
    assert not is_held(LIVE)


def test_a_full_disk_keeps_nobody_from_removing_what_fills_it(folder: Path) -> None:
    (folder / "scratch").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        assert refuse_live(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_that_is_called_lock_is_a_run_like_others(folder: Path) -> None:
    locks = hold_run("lock")
    with pytest.raises(UserError, match=r"^the run lock is live in this folder \(process \d+\)"):
        refuse_live(folder)
    for lock in locks:
        lock.close()
    assert refuse_live(folder)


def test_the_lock_of_a_run_says_when_it_began() -> None:
    hold_run("early")
    before = live_lock("early").stat().st_mtime_ns
    hold_run("late")
    assert live_lock("early").stat().st_mtime_ns == before <= live_lock("late").stat().st_mtime_ns
    assert LIVE.exists()


def test_pinned_data_is_read_by_many_and_made_by_one_alone() -> None:
    readers = [hold(PINNED, shared=True), hold(PINNED, shared=True)]
    with pytest.raises(UserError):
        hold(PINNED)
    for lock in readers:
        lock.close()
    maker = hold(PINNED)
    with pytest.raises(UserError):
        hold(PINNED, shared=True)
    maker.close()


def test_who_waits_for_a_result_says_so_first_on_the_terminal(folder: Path) -> None:
    """A training may take hours, of which the second run would show nothing but that its stage has started."""
    result, said = Path("scratch/.computing/base/8a1f"), []
    other = hold(result / "lock")

    def say(line: str) -> None:
        said.append(line)
        other.close()

    for _ in range(2):
        with waited_for(result, say):
            assert is_held(result / "lock")
    assert said == ["waiting for another process that is computing this (scratch/.computing/base/8a1f)"]
