"""Prints a report without the links to files beside it, so that it can be looked at where these files aren't.

python workflow/scripts/alone.py results/r1_tiny/report/report.html > docs/report.html
"""

import argparse
import re
import sys
from pathlib import Path

LINK = re.compile(r' ?<a (?:class="([\w -]+)" )?href="(?:samples\.html|making\.html|files/)[^"]*">([^<]*)</a>')


def alone(page: str) -> str:
    """Links with a class go with their words (SVG, CSV), and so do those of the menu; of the others the words stay."""
    page = re.sub(r'(?<=</a>)<a href="(?:samples|making)\.html">[^<]*</a>', "", page)
    return LINK.sub(lambda link: "" if link[1] else f" {link[2]}", page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="a run's report.html")
    sys.stdout.write(alone(parser.parse_args().report.read_text(encoding="utf-8")))
