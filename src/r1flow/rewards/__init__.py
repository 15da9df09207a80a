"""What RL pays for: rewards by name, each a factory that returns a function with TRL's signature (contract.py).

    GRPOTrainer(model, reward_funcs=[accuracy(), answer_format()], train_dataset=dataset_with_a_column_answer)

Accuracy, format and language: DeepSeek-R1, sections 2.2.2 and 2.3.2; helpfulness on the summary, harmlessness on
everything: 2.3.4. Importing this imports no torch; a reward model in use does.
"""

from r1flow.rewards.answers import accuracy
from r1flow.rewards.form import answer_format
from r1flow.rewards.languages import language_consistency
from r1flow.rewards.models import reward_model

__all__ = ["accuracy", "answer_format", "language_consistency", "reward_model"]
