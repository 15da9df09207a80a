"""Runs programs as stages: composes a run, plans it, prices it, and computes a stage so that a kill costs little."""
