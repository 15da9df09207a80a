"""Fills the pages' templates (*.html.jinja). A model's text may be hostile: it is escaped, hidden characters shown."""

import re
from pathlib import Path
from typing import Any

import jinja2

from r1flow.core.metrics import Interval
from r1flow.core.template import INVISIBLE
from r1flow.recipe.claims import Absent

SHOWN_CHARACTERS = 1200


def fill(template: str, **values: Any) -> str:
    """The page; with has_files=True, its tables link to files of their own (page_files.py)."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "percent": percent,
        "number": format_number,
        "duration": format_duration,
        "safe_text": safe_text,
        "slug": slug,
        "difference": difference,
    }
    page = environment.get_template(template).render({"has_files": False} | values)
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}".replace("-", "−")


def format_number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}".replace("-", "−")


def difference(interval: Interval | Absent, unit: str = "") -> str:
    """ "+36.9 points [33.0, 40.8]", with a real minus sign; a dash where there is none. Fractions are times 100."""
    if isinstance(interval, Absent) or interval.estimate is None:
        return "–"
    digits = 2 if "per" in unit else 1  # rates are small
    estimate, low, high = (
        # Without a negative zero.
        None if value is None else round(scale(unit) * value, digits) + 0.0
        for value in (interval.estimate, interval.low, interval.high)
    )
    bounds = "" if low is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{estimate:+.{digits}f}{unit and ' '}{unit}{bounds}".replace("-", "−")


def scale(unit: str) -> int:
    """What a value of this unit is multiplied by where people read it: fractions are shown in per cent."""
    return 1 if unit.startswith("tokens") else 100


def slug(words: str) -> str:
    """Words as the name of a file: "pass@k of each model" is pass-k-of-each-model."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def safe_text(text: str | None, limit: int = SHOWN_CHARACTERS) -> str:
    """Text safe to show: invisible and direction-changing characters are spelt out, and a long text is truncated."""
    text = text or ""
    shown = spell_out(text[:limit])
    return f"{shown} … ({len(text) - limit:,} characters more)" if len(text) > limit else shown


def spell_out(text: str) -> str:
    """The text with its invisible and direction-changing characters by their codes."""
    if text.isascii() and text.isprintable():  # most texts, and five times as fast
        return text
    return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], text)
