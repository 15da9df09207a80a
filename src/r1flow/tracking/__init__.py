"""What a stage tells while it is computed: a line on the terminal, a record for MLflow."""
