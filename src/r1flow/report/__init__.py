"""The report of a run as data (collect), pictures (figures) and one self-contained page (page, page.html.jinja)."""
