"""How a stage reports while it is computed: lines on the terminal, records for MLflow."""
