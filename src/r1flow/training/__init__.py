"""What the trainings share: snapshots and curves, ranks, rollouts and how they are scored."""
