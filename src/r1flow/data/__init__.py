"""The data of a run, generated from seeds: problems, worked solutions, texts, prompts, preferences, a tokenizer."""
