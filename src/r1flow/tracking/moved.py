"""Has MLflow's records in a project follow when the project's folder was moved or copied.

    follow_move(Path())    # before MLflow's UI opens, and before a delivery

MLflow keeps absolute paths of artifacts (file:///home/ann/r1/mlruns/9f2c…/artifacts). After a move it would make the
old folder again for those of new runs, and show none of the old ones'. Here they become the paths of today, in the
project's own SQLite store alone. Left out: a store that $MLFLOW_TRACKING_URI names.
"""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Where MLflow keeps paths of artifacts, by table.
COLUMNS = {
    "experiments": ("artifact_location",),
    "runs": ("artifact_uri",),
    "logged_models": ("artifact_location",),
    "model_versions": ("source", "storage_location"),
}


def follow_move(root: Path) -> list[str]:
    """Bring the paths in the project's store up to date; the folders of artifacts that they named before."""
    database, here = root / "mlflow.db", (root.resolve() / "mlruns").as_uri()
    if not database.is_file():
        return []
    try:
        with closing(sqlite3.connect(database, timeout=30)) as store, store:
            before = [place for place in set(places_of(store, root)) if place != here]
            for place in before:
                rename(store, place, here)
                # MLflow's own experiment, Default, has no file://.
                rename(store, path_of(place), path_of(here))
    except sqlite3.Error as error:  # a store of another kind of MLflow, or a damaged one: the delivery says more
        print(f"{database}: paths of artifacts can't be read ({error})", file=sys.stderr)
        return []
    return before


def places_of(store: sqlite3.Connection, root: Path) -> Iterator[str]:
    """The folders of artifacts that are this project's by its experiments; a user's own experiment may have another."""
    experiments = store.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
    for experiment, place in experiments:
        if place.startswith("file://") and place.endswith("/mlruns"):
            runs = store.execute("SELECT run_uuid FROM runs WHERE experiment_id = ?", (experiment,)).fetchall()
            if not Path(path_of(place)).exists() or any((root / "mlruns" / run).is_dir() for (run,) in runs):
                yield place


def path_of(place: str) -> str:
    return unquote(urlsplit(place).path)


def rename(store: sqlite3.Connection, old: str, new: str) -> None:
    """Replace the folder at the beginning of all paths."""
    for table, columns in COLUMNS.items():
        there = {row[1] for row in store.execute(f"PRAGMA table_info({table})")}
        for column in there.intersection(columns):
            below = f"{column} = ? OR substr({column}, 1, ?) = ?"
            store.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {below}",
                (new, len(old) + 1, old, len(old) + 1, f"{old}/"),
            )
