"""Takes one figure out of a report, as a picture of its own.

python workflow/scripts/figure.py results/r1_tiny/report/report.html "Response length by training step" > a.svg
"""

import re
import sys
from pathlib import Path

OWN = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" font-family="sans-serif"'


def figure(page: str, title: str) -> str:
    """The figure with that title, which screen readers read out; in a page it has the page's font and colours."""
    found = {name: svg for svg, name in re.findall(r'(<svg [^>]*aria-label="([^"]+)".*?</svg>)', page, flags=re.DOTALL)}
    if title not in found:
        sys.exit(f"no figure is called {title!r}; there are: {', '.join(found)}")
    own = found[title].replace("<svg ", f"<svg {OWN} ", 1)
    return re.sub(r"var\(--\w+, (#\w+)\)", r"\1", own) + "\n"


if __name__ == "__main__":
    report, title = sys.argv[1:]
    sys.stdout.write(figure(Path(report).read_text(encoding="utf-8"), title))
