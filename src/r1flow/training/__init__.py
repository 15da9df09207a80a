"""What the trainings share: snapshots, curves, several processes (ranks), and the server of their rollouts."""
