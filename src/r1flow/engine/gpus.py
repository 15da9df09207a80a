"""GPU slots: stages that run at the same time on one machine share a device only if they are asked to.

A stage on `device: cuda` takes as many devices as its rule's `gpu` resource says, holds them while it computes, and
sees no others:

    with held(2, terminal.say):    # CUDA_VISIBLE_DEVICES=0,3

A slot is a lock file named by the device's UUID; the lock is an flock, so a kill frees it. The candidates are
the devices that CUDA_VISIBLE_DEVICES names, set by the user or by Slurm for its job; without it, all that nvidia-smi
lists. Left out: other users and other programs on the same machine; a queue like Slurm keeps them apart.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path

from r1flow.artifacts.locks import took
from r1flow.core.errors import UserError

SLOTS = Path("/tmp")  # one for the whole machine; TMPDIR may differ between shells and jobs
# Between two tries to lock a device.
EVERY_S = 1.0
SMI = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
VISIBLE = "CUDA_VISIBLE_DEVICES"


@contextmanager
def held(count: int, say: Callable[[str], None], trains: bool = False) -> Iterator[None]:
    """Hold `count` devices and make only these visible; with 0 the stage shares: all stay visible and none is held.

    A training that shares sees only the first device, because transformers would spread its batches over all of them
    (DataParallel). Calls `say` while it waits for other stages; raises UserError if there are fewer devices than that.
    """
    with ExitStack() as stack:
        devices = candidates() if count or trains else {}
        if not 0 <= count <= len(devices):
            named = f" (CUDA_VISIBLE_DEVICES={os.environ[VISIBLE]})" if VISIBLE in os.environ else ""
            there = f"{', '.join(devices) or 'none'}{named}"
            if count > 0 and not named:
                there += f"; {VISIBLE}=0 names one that nvidia-smi doesn't list, device=cpu takes none"
            raise UserError(f"gpu={count}, but the GPUs available here are: {there}")
        names = list(devices)[:1]
        if count:
            names = take_devices(count, devices, own_folder(SLOTS / f"r1flow-gpus-{os.getuid()}"), stack, say)
        if names:
            if VISIBLE not in os.environ:
                # Counted as nvidia-smi does; CUDA by itself puts the fastest first.
                os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            os.environ[VISIBLE] = ",".join(names)  # the names as given: vLLM can't read a UUID
        yield


def candidates() -> dict[str, str]:
    """The devices to choose from: CUDA's name of each, and its UUID (without nvidia-smi, the name again).

    Like CUDA, it stops at the first name that is no device's. A device with two names counts once.
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
    """The UUID of the device that CUDA means by a name; None if it names none, such as -1, NoDevFiles, none or all.

    The beginning of a UUID is enough if it is unique. Slices of a GPU (MIG) are in no list, so their names are returned
    as they are; so is, when nothing is listed, any name that could be a device's.
    """
    if name in listed:
        return listed[name]
    if name.startswith("MIG-") or (not listed and re.fullmatch(r"\d+|GPU-.+", name)):
        return name
    meant = [uuid for uuid in listed.values() if name.startswith("GPU-") and uuid.startswith(name)]
    return meant[0] if len(meant) == 1 else None


def own_folder(folder: Path) -> Path:
    """The folder of the slots, made if needed; raises UserError when it belongs to another user."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise UserError(f"{folder}: belongs to another user; remove it")
    return folder


def take_devices(
    count: int, devices: dict[str, str], folder: Path, stack: ExitStack, say: Callable[[str], None]
) -> list[str]:
    """Lock `count` devices, waiting for them; one process gathers at a time, so no two wait for each other."""
    taken: list[str] = []
    with (folder / "turn").open("w") as turn:
        for wait in chain([0], repeat(EVERY_S)):
            time.sleep(wait)
            if took(turn):
                lock_free_devices(count, devices, folder, stack, taken)
            if len(taken) == count:
                return taken
            if not wait:
                say(f"waiting for {count} of {len(devices)} GPUs: other stages hold them or were first")


def lock_free_devices(count: int, devices: dict[str, str], folder: Path, stack: ExitStack, taken: list[str]) -> None:
    """Lock what is free, up to `count` in all."""
    for name, device in devices.items():
        if name not in taken and len(taken) < count:
            slot = (folder / device.replace("/", "-")).open("w")
            if took(slot):
                stack.enter_context(slot)
                taken.append(name)
