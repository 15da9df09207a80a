"""What the trainings share: snapshots, curves, several processes (ranks), and how rollouts are drawn and scored."""
