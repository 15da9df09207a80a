"""MLflow's client, within limits, and how an experiment, a model and the runs of a stage are found with it.

Servers answer within limits (core/servers.py). A server also says where the artifacts go. From one that is asked over
HTTP only a server's address is taken, since MLflow's client would write to any folder of this machine (file:) that a
server names; and credentials go to no other server than the one that they are for.
"""

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import mlflow
from mlflow.entities import LoggedModelStatus
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.store.artifact.artifact_repository_registry import get_registered_artifact_repositories
from mlflow.utils.credentials import get_default_host_creds
from sqlalchemy.exc import SQLAlchemyError

from r1flow.core.servers import bound_requests
from r1flow.tracking.spool import URI, bare_address
from r1flow.tracking.views import NOTE, experiment_tags

ARTIFACT_SERVERS = ("mlflow-artifacts", "http", "https")  # schemes of artifacts' addresses that a server may name
CREDENTIALS = ("username", "password", "token", "auth", "aws_sigv4", "client_cert_path")  # in MLflow's MlflowHostCreds
ID = re.compile(r"[\w-]{1,256}", re.ASCII)
HASH = re.compile(r"[0-9a-f]{64}")


def whole_address(stored: str) -> str:
    """A store's address, with what $MLFLOW_TRACKING_URI adds to it, such as a database's password."""
    here = os.environ.get(URI, "")
    return here if bare_address(here) == stored else stored


@cache
def client_of(uri: str) -> mlflow.MlflowClient:
    bound_servers()
    return mlflow.MlflowClient(uri)


@cache
def bound_servers() -> None:
    """Let servers neither send without end nor name places on this machine as those of their artifacts."""
    bound_requests()
    repositories = get_registered_artifact_repositories()
    for scheme, make in list(repositories.items()):
        repositories[scheme] = checked_repository(make)


def checked_repository(make: Callable[..., Any]) -> Callable[..., Any]:
    def checked(artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> Any:
        check_artifacts(artifact_uri, tracking_uri or mlflow.get_tracking_uri())
        return make(artifact_uri, tracking_uri=tracking_uri, registry_uri=registry_uri)

    return checked


def check_artifacts(artifacts: str, server: str) -> None:
    """Raise MlflowException for an address of artifacts that a server must not name."""
    asked, named = urlsplit(server), urlsplit(artifacts)
    if asked.scheme not in ("http", "https"):  # a database or a folder of ours
        return
    fault = ""
    if named.scheme not in ARTIFACT_SERVERS:
        fault = "only a server's address is taken; start it with --serve-artifacts"
    elif named.netloc and named.hostname != asked.hostname:
        held = get_default_host_creds(server)
        if any(getattr(held, field, None) for field in CREDENTIALS):
            fault = "another server, which must not get the credentials; let it serve the artifacts itself"
    if fault:
        said = f"{bare_address(server)} keeps its artifacts at {bare_address(artifacts)}: {fault}"
        raise MlflowException(said, error_code=INVALID_PARAMETER_VALUE)


@cache
def experiment_of(uri: str, name: str, artifacts: str | None) -> str:
    """The id of the experiment, made when it isn't there."""
    client = client_of(uri)
    if not (experiment := client.get_experiment_by_name(name)):
        try:
            client.create_experiment(name, artifacts, {"mlflow.experimentKind": "custom_model_development"})
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise  # else another machine's delivery was quicker
        experiment = client.get_experiment_by_name(name)
    experiment_id = known_id(experiment and experiment.experiment_id)
    for key, value in experiment_tags(experiment_id).items():
        # People edit the note.
        if key not in experiment.tags or (key != NOTE and experiment.tags[key] != value):
            client.set_experiment_tag(experiment_id, key, value)
    return experiment_id


def known_id(told_id: str) -> str:
    """The id; raises MlflowException for none: what answers, a proxy perhaps, keeps nothing of what it is sent."""
    if not ID.fullmatch(told_id or ""):
        raise MlflowException(
            f"a reply without an id ({told_id!r:.99}), so no MLflow server; look at MLFLOW_TRACKING_URI"
        )
    return told_id


def known_model(client: mlflow.MlflowClient, experiment: str, manifest: str | None) -> Any:
    """The model with this manifest in the experiment, if there is one."""
    if not HASH.fullmatch(manifest or ""):
        return None
    found = client.search_logged_models([experiment], f"tags.manifest = '{manifest}'")
    return next((model for model in found if model.status == LoggedModelStatus.READY), None)


@cache
def experiments_of(uri: str) -> list[str]:
    """The ids of all experiments that there were when it was first asked for."""
    return [experiment.experiment_id for experiment in client_of(uri).search_experiments()]


def runs_of(uri: str, stage: str) -> list[mlflow.entities.Run]:
    """All runs of a stage, the latest first; none where there is no store that this version of MLflow can read."""
    try:
        return client_of(uri).search_runs(experiments_of(uri), f"tags.stage = '{stage}'", order_by=["start_time DESC"])
    except (MlflowException, SQLAlchemyError):
        return []
