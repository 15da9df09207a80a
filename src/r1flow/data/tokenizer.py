"""The tokenizer: byte-pair merges learnt from the corpus, single digits, and the tags as tokens of their own.

    "then 24 - 19 = 5, so"    →    then␣ | 2 | 4 | ␣-␣ | 1 | 9 | ␣=␣ | 5 | ,␣ | so

Text is first cut into words, operators and marks, each with the space that follows it, so a number never needs a
token for the space before it. Any text round-trips, because the base vocabulary is all 256 bytes. The tags are ordinary
added tokens, not special ones: RL drops special tokens when it decodes completions, and its rewards must see the tags.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from r1flow.core.errors import UserError
from r1flow.core.template import TAGS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

EOS, PAD = "<|endoftext|>", "<|pad|>"
PIECES = r"\p{L}+ ?|\p{N}| ?[+\-*/%=] |[^\s\p{L}\p{N}]+ ?|\s+"


def train_tokenizer(
    texts: Iterable[str], vocabulary: int, template: str, tags: Sequence[str] = TAGS
) -> "PreTrainedTokenizerFast":
    """A tokenizer with at most `vocabulary` entries, `tags` included, and `template` as its chat template.

    Raises UserError when `vocabulary` has no room for the 256 bytes and the tokens of our own.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if vocabulary < 256 + len(tags) + 2:
        least = f"use {256 + len(tags) + 2} or more, for all bytes, the tags, the end and the padding"
        raise UserError(f"data.tokenizer.vocabulary: {vocabulary} is too small; {least}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(tags),
        special_tokens=[EOS, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD)
    fast.add_tokens(list(tags))
    fast.chat_template = template
    fast.clean_up_tokenization_spaces = False
    return fast
