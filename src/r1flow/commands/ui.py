"""Opens the project's runs in MLflow's UI: prints the addresses of its ready-made views, then serves them until Ctrl-C.

    r1flow ui                 http://127.0.0.1:5000, on this machine only
    r1flow ui --port 5001     beside another project's

It is MLflow's own server on mlflow.db, or on the database that $MLFLOW_TRACKING_URI names, in its half for trainings
and without its telemetry. The server has worker processes, which it leaves behind when it is ended, so they are one
group, which ends with this command.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError
from r1flow.tracking import spool
from r1flow.tracking.moved import follow_move
from r1flow.tracking.views import HOST, PORT, addresses, renew_views

END_S = 10.0  # for requests that are being answered
SETTINGS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Open the runs in MLflow's UI, on this machine only. Its addresses are printed first: all runs, the curves of "
        "RL, completions side by side, the models by their scores. End with Ctrl-C."
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"where to listen (default: {PORT})")


def run(arguments: argparse.Namespace) -> None:
    enter_project()
    if (server := os.environ.get(spool.URI, "")).startswith("http"):
        raise UserError(f"{spool.URI}: runs are recorded at {spool.bare_address(server)}; open that address")
    check_port(arguments.port)
    base = f"http://{HOST}:{arguments.port}"
    follow_move(Path())
    place = spool.store(Path())
    database = place["uri"].removeprefix("sqlite:///")
    if database == place["uri"]:  # on another database's server, which only MLflow asks
        print(f"MLflow's pages, once its server has started: {base}", flush=True)
    elif experiment := renew_views(Path(database), place["experiment"]):
        print("\n".join(["MLflow's pages, once its server has started:", *addresses(experiment, base)]), flush=True)
    elif Path(database).exists():
        print(f"{database}: no experiment {place['experiment']} can be read there; see what {base} shows", flush=True)
    else:
        print(f"no run has been recorded here yet; {base} will show an empty store", flush=True)
    words = ["--host", HOST, "--port", str(arguments.port), "--workers", "1"]
    # Not an argument, which others on this machine could read: a database's address may have a password.
    backend = {"MLFLOW_BACKEND_STORE_URI": os.environ.get(spool.URI) or place["uri"]}
    serve_until_told([sys.executable, "-m", "mlflow", "ui", *words], os.environ | SETTINGS | backend)


def serve_until_told(command: list[str], environment: dict[str, str]) -> None:
    """Run a server until it ends, or until Ctrl-C, SIGTERM or a closed terminal; no process of its group is left."""
    told = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in told:
        signal.signal(number, end_serving)
    server = None
    try:
        server = subprocess.Popen(command, env=environment, start_new_session=True)
        status = server.wait()
    finally:
        for number in told:
            signal.signal(number, signal.SIG_IGN)
        if server is not None:
            end_group(server)
    if status:
        raise UserError(f"MLflow's server ended with status {status}; what it printed says why")


def end_serving(*_: Any) -> NoReturn:
    raise SystemExit(0)


def end_group(leader: "subprocess.Popen[bytes]") -> None:
    """End a process and all others of its group: they are asked to, and after END_S seconds made to."""
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            leader.wait(END_S)
        os.killpg(leader.pid, signal.SIGKILL)


def check_port(port: int) -> None:
    """Raise UserError for a port that can't be listened on; MLflow's server would start again and again."""
    try:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((HOST, port))
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: {error}; use another, such as --port 5001") from error
