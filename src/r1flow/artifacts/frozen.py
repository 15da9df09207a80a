"""A stage's slice of the configuration as a file that never changes: `<folder>/<stage>-<hash of the content>.yaml`.

The process that composes (config.py) writes it and the stage reads it, so a running stage's configuration can't change.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from r1flow.core.files import read_yaml, write_whole


class Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice, as aliases aren't read (core/files.py)."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(config: dict[str, Any]) -> str:
    return yaml.dump(config, Dumper=Dumper, sort_keys=True, allow_unicode=True, width=120)


def config_digest(config: dict[str, Any]) -> str:
    """12 hex digits of the content, whatever the order of the keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def freeze(stage: str, config: dict[str, Any], folder: Path) -> Path:
    """Write the slice, unless it is already there; other content under its name is replaced, with a line on stderr."""
    path = folder / f"{stage}-{config_digest(config)}.yaml"
    if path.exists() and not holds(path, config):
        print(f"{path}: this file has changed, as after a power cut; writing it again", file=sys.stderr)
        path.unlink()
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, dump(config), durable=True)
    return path


def holds(path: Path, config: dict[str, Any]) -> bool:
    try:
        return read_yaml(path) == config
    except (OSError, ValueError):
        return False
