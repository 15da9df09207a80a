"""GPU slots: stages that run at once on one machine never share a device unasked.

A stage on `device: cuda` takes as many devices as its rule's `gpu` resource says, holds them while it computes, and
sees no others:

    with held(2, terminal.say):    # CUDA_VISIBLE_DEVICES=0,3

A slot is a lock file named by the device's UUID; the lock is an flock, so a kill frees it. To choose from are the
devices that CUDA_VISIBLE_DEVICES names already, set by the user or by Slurm for its job; else what nvidia-smi lists.
Left out: other people and other programs on the same machine; against them a queue like Slurm helps.
"""

import fcntl
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import IO

from r1flow.core.errors import UserError

SLOTS = Path("/tmp")  # of this machine; TMPDIR may be another in every shell and job
EVERY_S = 1.0
SMI = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
VISIBLE = "CUDA_VISIBLE_DEVICES"


@contextmanager
def held(count: int, say: Callable[[str], None], trains: bool = False) -> Iterator[None]:
    """Hold `count` devices and show only these; 0 asks to share: all stay visible and none is held.

    A training that shares sees the first alone: transformers would spread its batches over all (DataParallel). Says so
    while it waits for others to let go; raises UserError where there aren't as many at all.
    """
    with ExitStack() as stack:
        devices = candidates() if count or trains else {}
        if not 0 <= count <= len(devices):
            named = f" (CUDA_VISIBLE_DEVICES={os.environ[VISIBLE]})" if VISIBLE in os.environ else ""
            raise UserError(f"gpu={count}, but the devices to be had are: {', '.join(devices) or 'none'}{named}")
        names = list(devices)[:1]
        if count:
            names = take(count, devices, own(SLOTS / f"r1flow-gpus-{os.getuid()}"), stack, say)
        if names:
            if VISIBLE not in os.environ:
                os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbers as nvidia-smi's; CUDA's begin with the fastest
            os.environ[VISIBLE] = ",".join(names)  # by the names they came with: vLLM can't read a UUID
        yield


def candidates() -> dict[str, str]:
    """The devices to choose from: what CUDA calls them, and the UUID of each (without nvidia-smi, that name again).

    As CUDA does, it takes names up to the first that is no device's. One with two names is one device.
    """
    try:
        output = subprocess.run(SMI, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        output = ""
    fields = [line.split(", ") for line in output.splitlines()]
    listed = {row[0]: row[1] for row in fields if len(row) == 2}
    if VISIBLE not in os.environ:
        return listed
    devices: dict[str, str] = {}
    for name in filter(None, map(str.strip, os.environ[VISIBLE].split(","))):
        if (uuid := uuid_of(name, listed)) is None:
            break
        if uuid not in devices.values():
            devices[name] = uuid
    return devices


def uuid_of(name: str, listed: dict[str, str]) -> str | None:
    """The device that CUDA means by a name; None for what names none, such as -1, NoDevFiles, none or all.

    The start of a UUID will do where only one has it. Slices of a GPU (MIG) are in no list, and without one a name that
    could be a device's is taken at its word.
    """
    if name in listed:
        return listed[name]
    if name.startswith("MIG-") or (not listed and re.fullmatch(r"\d+|GPU-.+", name)):
        return name
    meant = [uuid for uuid in listed.values() if name.startswith("GPU-") and uuid.startswith(name)]
    return meant[0] if len(meant) == 1 else None


def own(folder: Path) -> Path:
    """The folder of the slots; raises UserError when somebody else put one there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise UserError(f"{folder}: belongs to another user; remove it")
    return folder


def take(count: int, devices: dict[str, str], folder: Path, stack: ExitStack, say: Callable[[str], None]) -> list[str]:
    """Lock `count` of the devices; one process at a time gathers, so that no two wait for what the other holds."""
    taken: list[str] = []
    with (folder / "turn").open("w") as turn:
        for wait in chain([0], repeat(EVERY_S)):
            time.sleep(wait)
            if locked(turn):
                gather(count, devices, folder, stack, taken)
            if len(taken) == count:
                return taken
            if not wait:
                say(f"waits for {count} of {len(devices)} GPUs: other stages hold them or came first")


def gather(count: int, devices: dict[str, str], folder: Path, stack: ExitStack, taken: list[str]) -> None:
    """Lock what is free, up to `count` in all."""
    for name, device in devices.items():
        if name not in taken and len(taken) < count:
            slot = (folder / device.replace("/", "-")).open("w")
            if locked(slot):
                stack.enter_context(slot)
                taken.append(name)


def locked(file: IO[str]) -> bool:
    """Whether the lock could be taken without waiting."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
