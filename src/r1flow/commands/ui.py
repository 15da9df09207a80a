"""Opens the project's runs in MLflow's UI: prints the addresses of its ready-made views, then serves them until Ctrl-C.

    r1flow ui                 http://127.0.0.1:5000, on this machine only
    r1flow ui --port 5001     beside another project's

It is MLflow's own server on mlflow.db, in its half for trainings and without its telemetry.
"""

import argparse
import os
import socket
import sys
from pathlib import Path

from r1flow.commands.places import enter_project
from r1flow.core.errors import UserError
from r1flow.tracking import spool
from r1flow.tracking.moved import follow_move
from r1flow.tracking.views import HOST, PORT, addresses, renew_views

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
    if experiment := renew_views(Path("mlflow.db")):
        print("\n".join(["MLflow's pages, once its server has started:", *addresses(experiment, base)]), flush=True)
    else:
        print(f"no run has been recorded here yet; {base} will show an empty store", flush=True)
    store = spool.project_store(Path())["uri"]
    words = ["--backend-store-uri", store, "--host", HOST, "--port", str(arguments.port), "--workers", "1"]
    os.execve(sys.executable, [sys.executable, "-m", "mlflow", "ui", *words], os.environ | SETTINGS)


def check_port(port: int) -> None:
    """Raise UserError for a port that can't be listened on; MLflow's server would start again and again."""
    try:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((HOST, port))
    except (OSError, OverflowError) as error:
        raise UserError(f"--port {port}: {error}; use another, such as --port 5001") from error
