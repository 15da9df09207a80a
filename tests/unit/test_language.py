"""Language consistency counts words by clause; numbers, formulae and code are no words."""

import time

import pytest

from r1flow.language import consistency

EUROPEAN = ("en", "de", "fr", "es")
ALL = (*EUROPEAN, "zh", "ja", "ru")

SENTENCES = {
    "en": "First we add the two numbers, then we take away what is left.",
    "de": "Zuerst addieren wir die beiden Zahlen, dann ziehen wir den Rest ab.",
    "fr": "D'abord nous ajoutons les deux nombres, ensuite nous enlevons le reste.",
    "es": "Primero sumamos los dos números, después quitamos lo que queda.",
    "zh": "首先我们把两个数相加，然后减去剩下的数。",
    "ja": "まず二つの数を足して、それから残りを引きます。",
    "ru": "Сначала мы складываем два числа, затем вычитаем остаток.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_in_one_language_is_all_in_it_and_in_no_other(language: str) -> None:
    assert consistency(SENTENCES[language], language, ALL) == 1.0
    other = "de" if language == "en" else "en"
    assert consistency(SENTENCES[language], other, ALL) == 0.0


def test_shares_are_weighted_by_words() -> None:
    assert consistency("we start with 8 + 16 = 24. dann ist 24 - 19 = 5.", "en", ("en", "de")) == 0.6


@pytest.mark.parametrize("text", ["", " \n", "8 + 16 = 24", "$a \\cdot b$", "```python\nprint('hello')\n```", "?!.,"])
def test_no_words_is_not_applicable(text: str) -> None:
    assert consistency(text, "en", ("en", "de")) is None


def test_code_formulae_and_tags_do_not_count() -> None:
    text = (
        "dann ist `the answer is here` und $the+sum$ <think>das ist</think> ```we start with the number``` das Ergebnis"
    )
    assert consistency(text, "de", ("en", "de")) == 1.0


def test_another_script_in_the_same_clause_counts() -> None:
    assert consistency("the answer Привет мир", "en", ALL) == 0.5
    assert consistency("Привет", "en", ("en", "de")) == 0.0


def test_order_of_candidates_and_repetition_do_not_matter() -> None:
    texts = [*SENTENCES.values(), "so", "also", "ok", "plus minus", "a"]
    first = [consistency(text, "en", ("en", "de", "fr")) for text in texts]
    assert first == [consistency(text, "en", ("fr", "de", "en")) for text in texts]


def test_hostile_texts_end_quickly() -> None:
    begin = time.perf_counter()
    for text in [
        "a" * 300_000,
        "the " * 50_000,
        "```" * 10_000,
        "$" * 30_001,
        "<" * 50_000,
        "'" * 50_000,
        "\\(" * 20_000,
    ]:
        consistency(text, "en", EUROPEAN)
    assert time.perf_counter() - begin < 5
