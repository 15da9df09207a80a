"""The recipe: the table of its stages, and the claims of the paper that a run may reproduce."""
