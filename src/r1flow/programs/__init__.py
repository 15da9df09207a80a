"""What computes the stages: a folder each, with a function `compute(stage) -> metrics` in its compute.py."""
