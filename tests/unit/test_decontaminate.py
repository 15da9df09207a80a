"""Decontamination: leaks are found however they are spelt; phrases and other problems are none; any text is text."""

import os
import random
import subprocess
import sys
import time

import benchmark
import pytest

from r1flow.data import leaks
from r1flow.data.decontaminate import NEARNESS, SHINGLE, Hit, Index, Kind, runs, words_of

STORY = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did "
    "Natalia sell altogether in April and May?"
)
LATEX = r"Let $f(x) = \frac{1}{2}x^2 - 3$. For which $x \le 5$ is $\left(f(x)\right)^{2} = 25 \cdot 4$?"


def kinds(train: str, benchmark: str) -> set[str]:
    return {hit.kind.value for hit in Index([benchmark]).hits([train])}


# Spelling


@pytest.mark.parametrize(
    "spelt",
    [
        STORY.upper(),
        STORY.replace(",", " –").replace("?", " ...?!"),
        STORY.replace(" ", "  \n"),
        STORY.replace("April", "**April**"),
        STORY.replace("a", "\uff41"),  # full-width
        f"- {STORY}".replace(". How", ".\n- How"),
    ],
)
def test_case_punctuation_space_and_unicode_spellings_are_one_text(spelt):
    assert Index([STORY]).hits([spelt]) == [Hit(0, 0, Kind.WHOLE)]


@pytest.mark.parametrize(
    "spelt",
    [
        LATEX.replace("$", "$$"),
        LATEX.replace(r"\frac", r"\dfrac ").replace("{1}{2}", "12"),
        LATEX.replace(r"\left", "").replace(r"\right", "").replace(r"\le", r"\leqslant "),
        LATEX.replace(r"\cdot", r"\times").replace("x^2", "x^{2}").replace("{2} =", r"2\,=\,"),
        LATEX.replace(r"\le ", "≤").replace(r"\cdot", "×").replace("- 3", "− 3").replace("x^2", "x²"),
        LATEX.replace("$f", r"\(f").replace("3$", r"3\)"),
    ],
)
def test_spellings_of_latex_are_one_text(spelt):
    assert kinds(spelt, LATEX) == {"whole"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8 + 16 - 19 = ?", "8 + 16 + 19 = ?"),
        ("8 + 16 - 19 = ?", "8 - 16 + 19 = ?"),
        ("(8 + 16) * 2 =", "8 + 16 * 2 ="),
        ("What is 12?", "What is 1 2?"),
        ("What is 5!", "What is 5?"),
        ("What is 2.5?", "What is 25?"),
        ("Is x < 3?", "Is x > 3?"),
        ("What is 5/2?", "What is 5 2?"),
    ],
)
def test_signs_and_numbers_tell_problems_apart(one, other):
    assert "whole" not in kinds(one, other)
    assert kinds(one, one) == {"whole"}


def test_a_problem_without_words_is_found_with_and_without_its_equals_sign():
    assert kinds("8 + 16 - 19", "8+16-19 = ?") == {"whole"}


def test_characters_of_a_script_without_spaces_are_words():
    problem = "小明有三个苹果和五个梨，他吃了两个苹果以后还剩下多少个水果？"
    assert kinds(f"请看题目：{problem}请回答。", problem) >= {"13-gram", "8-gram"}
    assert kinds(problem.replace("，", " ").replace("？", ""), problem) == {"whole"}
    assert kinds("小红今天去学校读书，晚上回家吃饭，明天休息。", problem) == set()


# The kinds


def words(count: int, start: int = 0) -> list[str]:
    """Different words: no two runs are alike."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [f"w{letters[n // 26 % 26]}{letters[n % 26]}{letters[n // 676]}" for n in range(start, start + count)]


@pytest.mark.parametrize(("shared", "expected"), [(12, set()), (13, {"13-gram"})])
def test_thirteen_words_in_a_row_are_a_hit_and_twelve_are_not(shared, expected):
    benchmark = words(100)
    assert (
        kinds(" ".join([*words(40, 500), *benchmark[50 : 50 + shared], *words(40, 600)]), " ".join(benchmark))
        == expected
    )


@pytest.mark.parametrize(("length", "expected"), [(15, {"8-gram"}), (16, set()), (40, set())])
def test_runs_of_eight_words_count_when_they_are_more_than_half_of_the_benchmark_text(length, expected):
    benchmark = words(length)
    assert kinds(" ".join([*words(30, 500), *benchmark[4:12], *words(30, 600)]), " ".join(benchmark)) == expected


def test_runs_of_eight_add_up_over_one_training_text_and_not_over_several():
    benchmark = words(30)
    halves = [" ".join([*words(30, 500), *benchmark[:9]]), " ".join([*benchmark[20:29], *words(30, 600)])]
    assert Index([" ".join(benchmark)]).hits(halves) == []
    assert Index([" ".join(benchmark)]).hits([" ".join(halves)]) == [Hit(0, 0, Kind.GRAM_8)]


def test_a_text_below_eight_words_is_only_compared_whole():
    assert kinds("write a poem about the sea", "please write a poem about the sea") == set()
    assert kinds("Write a poem about: the sea!", "write a poem about the sea") == {"whole"}


def test_the_same_problem_with_other_numbers_is_masked_and_nothing_else():
    assert kinds(STORY.replace("48", "1,250"), STORY) == {"masked"}
    sums = [
        f"State the final answer to the following arithmetic problem: {text} ="
        for text in ("8 + 16 - 19", "8 + 16 + 2 - 5")
    ]
    assert Index(sums[1:]).hits(sums[:1]) == [Hit(0, 0, Kind.MASKED)]
    assert kinds("Find the value of w in the equation: 10 - w = 4", "Find the value of w in the equation: 3*w = 9") == {
        "masked"
    }


def test_every_text_that_has_a_masked_pair_is_listed_and_the_list_stays_short():
    train = [f"What is {a} plus {a + 1}?" for a in range(300)]
    benchmark = [f"What is {a} plus {a + 1}?" for a in range(200, 500)]
    hits = Index(benchmark).hits(train)
    masked = [hit for hit in hits if hit.kind == Kind.MASKED]
    assert len(hits) - len(masked) == 100  # the same sums
    assert {hit.train_index for hit in masked} == set(range(300)) == {hit.benchmark_index for hit in masked}
    assert len(masked) <= 600


def test_a_phrase_of_many_benchmark_texts_gives_none_of_them_away():
    phrase = "Where m and n are relatively prime positive integers find the sum of m and n and prove it"
    texts = [f"{' '.join(words(30, 40 * n))}. {phrase}." for n in range(11)]
    other = f"{' '.join(words(30, 900))}. {phrase}."
    assert Index(texts).hits([other]) == []
    assert {hit.kind for hit in Index(texts[:10]).hits([other])} == {Kind.GRAM_13}
    assert {(hit.benchmark_index, hit.kind) for hit in Index(texts).hits([texts[4].replace(" w", " so w", 1)])} >= {
        (4, Kind.NEAR)
    }


def test_near_duplicates_are_all_those_that_exact_comparison_finds():
    rng = random.Random(5)
    vocabulary = words(60)
    benchmark = [rng.choices(vocabulary, k=rng.randint(8, 25)) for _ in range(80)]
    train = []
    for _ in range(800):
        text = list(rng.choice(benchmark))
        for _ in range(rng.randint(0, 4)):
            text[rng.randrange(len(text))] = rng.choice(vocabulary)
        train.append(text)
    shingles = {id(text): set(runs(tuple(text), SHINGLE)) for text in train + benchmark}

    def similarity(one: list[str], other: list[str]) -> float:
        a, b = shingles[id(one)], shingles[id(other)]
        return len(a & b) / len(a | b)

    expected = {
        (t, b)
        for t, one in enumerate(train)
        for b, other in enumerate(benchmark)
        if one != other and similarity(one, other) >= NEARNESS
    }
    hits = Index([" ".join(text) for text in benchmark]).hits([" ".join(text) for text in train])
    assert {(hit.train_index, hit.benchmark_index) for hit in hits if hit.kind == Kind.NEAR} == expected
    assert len(expected) > 200


# The list


def test_hits_are_in_order_and_every_copy_in_the_benchmark_is_hit():
    longer = f"Please answer: {STORY}"
    hits = Index([STORY, "What is 2 + 2?", STORY.upper()]).hits([longer, STORY])
    assert hits == [
        *(Hit(0, other, kind) for other in (0, 2) for kind in (Kind.GRAM_13, Kind.GRAM_8, Kind.NEAR)),
        Hit(1, 0, Kind.WHOLE),
        Hit(1, 2, Kind.WHOLE),
    ]


def test_what_a_text_hits_does_not_depend_on_the_others_but_for_the_choice_of_masked_pairs():
    texts = [STORY, LATEX, f"So: {STORY}", "good morning", STORY.replace("clips", "pens")]
    benchmark = [STORY, "good morning!", LATEX]
    together = Index(benchmark).hits(texts)
    alone = [
        Hit(n, hit.benchmark_index, hit.kind) for n, text in enumerate(texts) for hit in Index(benchmark).hits([text])
    ]
    assert together == alone != []
    backwards = Index(benchmark).hits(texts[::-1])
    assert {(4 - hit.train_index, hit.benchmark_index, hit.kind) for hit in backwards} == {
        (hit.train_index, hit.benchmark_index, hit.kind) for hit in together
    }


def test_training_texts_are_read_as_a_stream():
    read = []

    def stream():
        for number in range(3):
            read.append(number)
            yield STORY

    assert len(Index([STORY]).hits(stream())) == 3 == len(read)


def test_another_process_finds_the_same():
    program = (
        "import sys; from r1flow.data.decontaminate import Index\n"
        "texts = [' '.join(str(hash_) + 'x' for hash_ in range(n, n + 12)) for n in range(60)]\n"
        "print(Index([text + ' more words' for text in texts]).hits(texts))\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1 and "near" in said.pop().casefold()


# Hostile text


@pytest.mark.parametrize("empty", ["", " \n", "?!…", "\0\0", "\ud800", "$$", "_" * 50])
def test_texts_without_words_match_nothing(empty):
    assert Index([empty, STORY, empty]).hits([empty, STORY]) == [Hit(1, 1, Kind.WHOLE)]
    assert Index([STORY]).hits([]) == Index([]).hits([STORY]) == []


def test_nuls_and_lone_surrogates_are_space():
    assert kinds(STORY.replace(" ", "\0 \ud83d "), STORY) == {"whole"}
    assert Index([" ".join(words(21))]).hits(["\udfff".join(words(20))]) != []


HOSTILE = {
    "one word": "a",
    "spaces": " ",
    "hyphens": "- ",
    "brackets": "([",
    "dollars": "($",
    "equals": "= ?",
    "backslashes": "\\",
    "environments": "\\begin{",
    "fractions": "\\frac1 ",
    "combining marks": "\u0301\u0323",
    "points": "+.",
    "thousands": "1,000",
    "the benchmark's words": "natalia sold clips ",
    "repeated word": "clips ",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_long_text_takes_time_in_proportion(name):
    """0.2 MB each; whatever takes quadratic time would take minutes."""
    text = (HOSTILE[name] * 200_000)[:200_000]
    begin = time.process_time()
    Index([STORY, text[:1000]]).hits([text])
    assert time.process_time() - begin < 5


# Real problems


@pytest.fixture(scope="module")
def bench():
    if "R1FLOW_DATASETS" not in os.environ:
        pytest.skip("R1FLOW_DATASETS doesn't name the folder of the benchmark files")
    return benchmark.load("decontamination")


@pytest.mark.parametrize("name", ["gsm8k", "math500", "aime24"])
def test_planted_leaks_are_found_in_every_spelling(bench, name):
    texts = bench.problems(name)[:200]
    background = bench.problems("gsm8k", "train")[:100]
    long = [text for text in texts if len(words_of(text)) >= 12]
    for spell in (bench.verbatim, bench.in_capitals, bench.other_punctuation, bench.other_latex, bench.other_numbers):
        plants, found, _ = bench.plant(texts, spell, background)
        assert found == plants, spell.__name__
    for spell in (bench.one_more_word, bench.inside):
        plants, found, _ = bench.plant(long, spell, background)
        assert found == plants, spell.__name__
    plants, found, _ = bench.plant(long, bench.another_tail, background)
    assert found >= 0.95 * plants


def test_other_numbers_alone_are_no_leak(bench):
    texts = bench.problems("gsm8k")[:300]
    _, _, kinds = bench.plant(texts, bench.other_numbers, [])
    assert set(kinds) == {"masked"}


def test_real_training_problems_rarely_hit_a_test_problem(bench):
    hits = Index([text for name in bench.SETS for text in bench.problems(name)]).hits(bench.problems("gsm8k", "train"))
    assert len({hit.train_index for hit in hits if hit.kind != Kind.MASKED}) == 4  # of 7,473; docs/decontamination.md


def test_of_a_templates_problems_each_has_a_hit_and_their_pairs_are_not_all_listed():
    rng = random.Random(1)
    asked = "Look at the word {} and say how often the letter e is in it, and count every single one that you see."
    rows = []
    for number in range(300):
        rows.append((str(number), asked.format("".join(rng.choices("abcdefgh", k=8)))))
    farmer = "A farmer has rows of apple trees with seven trees in each row and fells five at noon: how many stay?"
    training = {"rl.jsonl": [*rows[:200], ("leak", farmer.replace("noon", "dawn"))]}
    evaluation = {"test.jsonl": [*rows[200:], ("farmer", farmer)]}
    every = leaks.tell_templates(leaks.matches_by_file(training, evaluation))["rl.jsonl"]
    some = leaks.matches_by_file(training, evaluation, templates=True)["rl.jsonl"]
    assert leaks.leaking_rows(some, ()).keys() == leaks.leaking_rows(every, ()).keys() == {"leak"}
    assert {(match.id, match.kind) for match in some} == {(match.id, match.kind) for match in every}
    assert set(some) < set(every) and len(some) < 20 * len(rows) < len(every)
