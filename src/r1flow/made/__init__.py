"""Where the default experiment's data comes from: drawn, written and split here, from a seed."""
