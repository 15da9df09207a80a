"""The report of a run as data (collect), pictures (figures) and pages (page, *.html.jinja)."""
