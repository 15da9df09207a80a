"""Words and shapes that everybody shares: errors, rows, the template of a response, languages, metrics."""
