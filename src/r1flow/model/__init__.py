"""A language model as torch computes it: loading it, our own forward pass, and the kernels of our trainings on CPUs."""
