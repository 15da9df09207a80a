"""Rewards, and functions of users, as a configuration names them."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from r1flow.core.errors import UserError, did_you_mean


def reward_names(rewards: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The reward of each entry of a block `rewards`, by the entry's label: its `name`, or else the label itself."""
    return {label: part.get("name") or label for label, part in rewards.items()}


def judges(rewards: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The labels of those entries of a block `rewards` that ask a judge."""
    return [label for label, name in reward_names(rewards).items() if name == "judge"]


def find_named(block: str, what: str, name: str, ours: Mapping[str, Any]) -> Any:
    """One of ours by its name, or a user's by its dotted path: `my_rewards.brevity` is in my_rewards.py.

    Raises UserError, which begins with the block of the configuration, for one that isn't there.
    """
    if name in ours:
        return ours[name]
    module, _, attribute = name.rpartition(".")
    if not module:
        known = did_you_mean(name, sorted(ours)) if ours else f"; name yours by its module, as my_module.{name}"
        raise UserError(f"{block}: there is no {what} {name!r}{known}")
    find_modules_here()
    file = f"{module.replace('.', '/')}.py"
    put = f"put the {what} into {file} in the project's folder"
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        parts = module.split(".")  # my.rewards may be missing as a whole, or from my/
        missing = error.name in (parts[0], module)
        remedy = put if missing else f"{file} imports it: install it"
        raise UserError(f"{block}: {module}.{attribute}: {error}; {remedy}") from error
    except Exception as error:
        raise UserError(f"{block}: {file} can't be imported ({type(error).__name__}: {error}); mend it") from error
    if not hasattr(found, attribute):
        raise UserError(f"{block}: {module}.{attribute}: {file} has no {attribute}; {put}")
    return getattr(found, attribute)


def check_types(place: str, function: Callable[..., Any], args: Mapping[str, Any]) -> None:
    """Refuse values that aren't of the types with which a function of ours is annotated; raises UserError."""
    from pydantic import TypeAdapter, ValidationError

    parameters = inspect.signature(function).parameters
    for name, value in args.items():
        kind = parameters[name].annotation
        try:
            TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError as error:
            wanted = inspect.formatannotation(kind)
            for ours, yaml in {"collections.abc.Sequence": "list", "collections.abc.Mapping": "dict"}.items():
                wanted = wanted.replace(ours, yaml)
            raise UserError(f"{place}.{name}: {value!r} isn't of type {wanted}; write a value of that type") from error


def find_modules_here() -> None:
    """Let Python find a user's modules in the project's folder, which is this process's."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
