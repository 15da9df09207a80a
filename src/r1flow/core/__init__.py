"""What all other folders use: errors, rows of data, the form of a response, languages, metrics."""
