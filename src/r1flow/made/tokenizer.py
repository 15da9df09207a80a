"""A small byte-level BPE tokenizer, trained on the corpus: single digits, whole words, operators with their spaces.

    "we start with 84 - 29 = 55"  ->  ["we", " start", " with", " ", "8", "4", " - ", "2", "9", " = ", "5", "5"]

Numbers are read digit by digit, so that a sum is a rule over digits and not a table of numbers. The tags are ordinary
added tokens: GRPO decodes with special tokens skipped, and its rewards must see them. Any text round-trips.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from r1flow.template import TAGS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

EOS, PAD = "<|endoftext|>", "<|pad|>"
# A digit; an operator with the spaces around it; a word with the space before it; other marks; spaces.
PIECES = r"\d| ?[-+*/=] ?|\s?\p{L}+|[^\s\p{L}\d]+|\s+"


def train(texts: Iterator[str], vocabulary: int, chat_template: str) -> "PreTrainedTokenizerFast":
    """A tokenizer of `vocabulary` tokens, the tags, EOS and PAD among them."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS, PAD])
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS),
        special_tokens=[EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD, padding_side="left")
    fast.chat_template = chat_template
    return fast
