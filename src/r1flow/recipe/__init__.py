"""What the recipe is: its stages, and the claims of the paper that a run may reproduce."""
