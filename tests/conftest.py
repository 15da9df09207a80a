"""What holds for all tests."""

import os

# Before torch is imported. The models are tiny, and threads that wait for one another cost six times the CPU: 158 s
# instead of 25 for test_sft.py, test_pretrain.py and test_sampling_engines.py, beside other work on two cores.
os.environ["OMP_NUM_THREADS"] = "1"
