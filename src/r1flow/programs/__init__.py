"""The programs that compute the stages: a folder for each, whose compute.py has `compute(stage) -> metrics`."""
