"""Graders decide by rules, without a model, whether an answer is right: True, False, or None if it can't be graded."""
