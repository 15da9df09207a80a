"""Runs programs as stages: composes and plans a run, estimates its cost, and computes each stage once."""
