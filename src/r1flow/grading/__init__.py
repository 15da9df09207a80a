"""Graders: what is right, by rule, without a model. Three verdicts: True, False, and None for what can't be graded."""
