"""Everything that only a GPU can show, in one command of eight minutes at most; given again, it goes on.

    python benchmarks/on_gpu.py                          # one NVIDIA GPU of 80 GB
    python benchmarks/on_gpu.py --steps sft grpo         # these steps alone, whether they were done before or not
    python benchmarks/on_gpu.py --toy --device cpu       # everything tiny, without a GPU: does it work here?

The steps, in this order. What a step has found is in OUT/on_gpu.json as soon as it ends, so a cut loses one step:

    checks         pytest -m gpu tests/gpu: the whole recipe, kills, the engines
    sft            SFT steps of Qwen2.5-0.5B and 1.5B by us and by plain TRL (large_step.py says how)
    recipe         the default experiment up to R1-Zero's RL, in a copy of the workflow, with device=cuda
    no_recompute   SFT steps of 1.5B without gradient checkpointing, in passes of 16,384 tokens
    liger          and with Liger's kernels, where liger-kernel is installed
    compiled       and with torch.compile in their place
    engines        0.5B sampled by each engine that is installed
    grpo           GRPO steps of 0.5B, sampled by transformers, or by vLLM where that is installed

Then comes one table, with what `r1flow plan --cost` predicts for each measured step. Libraries in other versions than
pyproject.toml pins are named and used all the same: a machine lent for an hour has the torch that it has. OUT also gets
on_gpu.log, all that the steps print. Left out: several GPUs, DeepSpeed, servers.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import yaml
from whole_run import ROOT, copy_workflow

from r1flow.programs.cost_estimate import Cost

ASSUMPTIONS = yaml.safe_load((ROOT / "conf/costs.yaml").read_text())
SMALLER = ["--shapes", "Qwen/Qwen2.5-0.5B"]
LARGEST = ["--shapes", "Qwen/Qwen2.5-1.5B", "--lengths", "4096", "--pass-tokens", "16384"]
NO_RECOMPUTE = ["--what", "sft", "--trainer", "gradient_checkpointing=false"]
# Arguments of large_step.py for each step that it does: what is measured, and the sizes, which --toy replaces.
LARGE_STEPS = {
    "sft": (["--what", "sft"], ["--lengths", "4096"]),
    "no_recompute": (NO_RECOMPUTE, LARGEST),
    "liger": ([*NO_RECOMPUTE, "use_liger_kernel=true"], LARGEST),
    "compiled": ([*NO_RECOMPUTE, "torch_compile=true"], LARGEST),
    "engines": (["--what", "sampling"], SMALLER),
    "grpo": (["--what", "grpo"], [*SMALLER, "--lengths", "1024"]),
}
# Seconds at most: about twice what each took, or would have taken, on an H100 with 16 cores.
LIMITS = {
    "checks": 300,
    "recipe": 300,
    "sft": 200,
    "no_recompute": 100,
    "liger": 100,
    "compiled": 150,
    "engines": 100,
    "grpo": 200,
}
COUNTED = ("tests", "failures", "errors", "skipped")


class TimeIsUp(Exception):
    """The step was ended before it was done."""


def run(command: list[str], limit_s: float, log: Path, cwd: Path = ROOT, **variables: str) -> int:
    """The exit code of a command whose whole output goes to the log; raises TimeIsUp and leaves no process behind."""
    with log.open("a") as file:
        print("$", *command, file=file, flush=True)
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise TimeIsUp(f"not done after {limit_s:.0f} s") from None
        finally:
            if process.poll() is None:
                kill(process)


def kill(process: subprocess.Popen) -> None:
    """And all that it has started: a workflow's jobs would go on and hold the GPU."""
    for one in [*psutil.Process(process.pid).children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


# The steps: each returns what on_gpu.json keeps of it.


def checks(options: argparse.Namespace, limit_s: float) -> dict[str, Any]:
    report = options.out / "checks.xml"
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu", "-v", f"--junitxml={report}"]
    if find_spec("xdist"):
        command += ["-n", str(min(4, os.cpu_count()))]
    run(command, limit_s, options.log, R1FLOW_GPU_TESTS=options.device)
    suite = ElementTree.parse(report).getroot().find("testsuite")
    found = {word: int(suite.get(word)) for word in COUNTED} | {"seconds": {}, "wrong": {}}
    for case in suite.iter("testcase"):
        found["seconds"][case.get("name")] = float(case.get("time"))
        for outcome in (*case.iter("failure"), *case.iter("error")):
            found["wrong"][case.get("name")] = outcome.get("message", "").split("\n")[0][:300]
    report.unlink()
    return found


def recipe(options: argparse.Namespace, limit_s: float) -> dict[str, Any]:
    experiment = "r1_micro" if options.toy else "r1_tiny"
    folder = options.out / "workflow"
    if not folder.exists():
        copy_workflow(folder)
    wanted = f"results/{experiment}/zero_rl/manifest.json"
    words = ["--cores", "all", "--config", f"experiment={experiment}", f"overrides=device={options.device}"]
    if code := run([sys.executable, "-m", "snakemake", wanted, *words], limit_s, options.log, folder):
        raise RuntimeError(f"snakemake ended with {code}; {options.log} says why")
    results = folder / "results" / experiment
    seconds = {job: json.loads((results / job / "cost.json").read_text())["seconds"] for job in ("base", "zero_rl")}
    history = json.loads((results / "zero_rl/metrics.json").read_text())["history"]
    solved = [row["dev/accuracy"] for row in history if "dev/accuracy" in row]
    mismatch = max(row["mismatch"] for row in history if "mismatch" in row)
    return {"seconds": seconds, "mismatch": mismatch, "dev_accuracy": [solved[0], solved[-1]]}


def large_step(name: str) -> Callable[[argparse.Namespace, float], dict[str, Any]]:
    """The step of this name, by large_step.py."""

    def step(options: argparse.Namespace, limit_s: float) -> dict[str, Any]:
        if name == "liger" and not find_spec("liger_kernel"):
            raise RuntimeError("not here: liger-kernel isn't installed")
        what, sizes = LARGE_STEPS[name]
        out = options.out / name
        command = [sys.executable, "benchmarks/large_step.py", f"--out={out}", f"--minutes={(limit_s - 10) / 60}"]
        command += [f"--device={options.device}", *what, *(["--toy", "--peak-tflops=1"] if options.toy else sizes)]
        if code := run(command, limit_s, options.log):
            raise RuntimeError(f"large_step.py ended with {code}; {options.log} says why")
        return json.loads((out / "large_step.json").read_text())

    return step


STEPS = {
    "checks": checks,
    "sft": large_step("sft"),
    "recipe": recipe,
    "no_recompute": large_step("no_recompute"),
    "liger": large_step("liger"),
    "compiled": large_step("compiled"),
    "engines": large_step("engines"),
    "grpo": large_step("grpo"),
}


# What the machine is, and what is missing on it.


def describe(device: str) -> list[str]:
    """The GPU, its driver and the libraries; ends with the reason and the remedy if the device can't be used."""
    name = "torch.cuda.get_device_name()" if device == "cuda" else "'CPU'"
    code = f"import torch; print(torch.__version__); torch.zeros(1, device={device!r}); print({name})"
    # In a process of its own: this one must not take memory of the GPU.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1]
        sys.exit(
            f"{device} can't be used: {why}; `nvidia-smi` shows the GPU, its driver and the newest CUDA for that; "
            "https://pytorch.org has a torch for each CUDA; --toy --device cpu tries this command without a GPU"
        )
    torch, name = done.stdout.splitlines()
    about = [f"{name}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, torch {torch}"]
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        about.append(subprocess.run(query, capture_output=True, text=True).stdout.strip())
    return [*about, *other_versions()]


def other_versions() -> list[str]:
    """Lines that name the libraries of other versions than pyproject.toml pins, and those that aren't here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pins = [*project["dependencies"], *extras["vllm"], *extras["deepspeed"], *extras["liger"]]
    other, missing = [], []
    for pin in pins:
        name, _, pinned = pin.partition("==")
        name = name.partition("[")[0]
        try:
            if (found := version(name)).partition("+")[0] != pinned:
                other.append(f"{name} {found} ({pinned})")
        except PackageNotFoundError:
            missing.append(name)
    lines = [f"other versions than pinned, used all the same: {', '.join(other)}"] if other else []
    return lines + ([f"not here: {', '.join(missing)}"] if missing else [])


# What is shown.


def table(found: dict[str, Any]) -> str:
    lines = list(found["machine"])
    for name, result in found["steps"].items():
        lines += ["", f"{name}: {result['took_s']:.0f} s"]
        if "left_out" in result:
            lines.append(f"  {result['left_out']}")
        elif name in LARGE_STEPS:
            lines += large_lines(result)
        else:
            lines += {"checks": check_lines, "recipe": recipe_lines}[name](result)
    return "\n".join(lines)


def check_lines(result: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{result[word]} {word}" for word in COUNTED)
    return [f"  {counts}", *(f"  {name}: {why}" for name, why in result["wrong"].items())]


def recipe_lines(result: dict[str, Any]) -> list[str]:
    first, last = result["dev_accuracy"]
    return [
        *(f"  {job}: {seconds:.0f} s" for job, seconds in result["seconds"].items()),
        f"  dev accuracy {first:.1%} -> {last:.1%}, mismatch of sampler and trainer at most {result['mismatch']:.4f}",
    ]


def large_lines(result: dict[str, Any]) -> list[str]:
    titles = f"{'':38}{'step s':>8}{'tokens/s':>10}{'GB':>6}{'sampling':>10}{'of peak':>9}{'planned/measured':>18}"
    lines = [titles]
    for row in result["rows"]:
        who = row["engine"] if row["what"] == "sampling" else row["who"]
        name = f"  {row['what']} {row['shape'].split('/')[-1]} {row['length']} {who}"
        if "seconds" not in row:
            lines.append(f"{name:38}{row['left_out']}")
            continue
        ratio = planned_s(row, result) / row["seconds"]
        sampling = f"{row['sampling_share']:.0%}" if "sampling_share" in row else ""
        lines.append(
            f"{name:38}{row['seconds']:8.2f}{row['tokens_per_s']:10,.0f}{row['memory_gb']:6.1f}{sampling:>10}"
            f"{row['peak_share']:9.1%}{ratio:12.2f}"
        )
    return lines


def planned_s(row: dict[str, Any], result: dict[str, Any]) -> float:
    """Seconds of this step by the assumptions of `r1flow plan --cost` (conf/costs.yaml)."""
    sampling, sizes = row.get("sampling_flops", 0.0), result["settings"]
    cost = Cost(
        "",
        row["parameters"],
        sampling=sampling,
        training=row["flops"] - sampling,
        layer_tokens=row["layers"] * (row["length"] - sizes["prompt"]) if sampling else 0,
        layer_passes=row["layers"] * row["tokens"] / sizes["pass_tokens"] if row["what"] != "sampling" else 0,
        engine=row["engine"] or "transformers",
    )
    return 3600 * cost.gpu_hours(result["peak_tflops"], ASSUMPTIONS)


def is_done(result: dict[str, Any] | None) -> bool:
    return result is not None and "left_out" not in result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("on_gpu"), help="folder of the results (on_gpu)")
    parser.add_argument("--steps", nargs="+", choices=STEPS, help="these alone; default: all that OUT hasn't yet")
    parser.add_argument("--minutes", type=float, default=8.0, help="no step begins or goes on after that (8)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--toy", action="store_true", help="tiny sizes, for a CPU")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    options.log, path = options.out / "on_gpu.log", options.out / "on_gpu.json"
    end = time.monotonic() + 60 * options.minutes
    machine = describe(options.device)
    found = json.loads(path.read_text()) if path.is_file() else {"machine": machine, "steps": {}}
    if found["machine"] != machine:
        sys.exit(f"{path} was measured on another machine; give --out another folder")
    for name in options.steps or [name for name in STEPS if not is_done(found["steps"].get(name))]:
        begin = time.monotonic()
        limit_s = min(end - begin, 9e9 if options.toy else LIMITS[name])
        try:
            if limit_s < 20:
                raise TimeIsUp("no time was left; the same command goes on")
            result = STEPS[name](options, limit_s)
        except (TimeIsUp, RuntimeError, OSError, ValueError, KeyError) as error:
            result = {"left_out": str(error)}
        found["steps"][name] = result | {"took_s": time.monotonic() - begin}
        path.write_text(json.dumps(found, indent=1))
        print(f"[{end - time.monotonic():4.0f} s left] {name}: {result.get('left_out', 'done')}", file=sys.stderr)
    print(table(found))


if __name__ == "__main__":
    main()
