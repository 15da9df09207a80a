r"""Final answers: finds the part of a completion that is graded, and in a text with other words, its one answer.

    final_answer("<think>…</think>so it is \boxed{\frac{1}{2}}")         # "\frac{1}{2}"
    candidate("Thus the area is $9$ cm. I hope it is correct.")         # "$9$ cm"
    candidate(r"\boxed{1} and \boxed{-2}")                              # "1, -2"

Exactly one candidate is graded, chosen by its place and not by its content: the last box, with the boxes directly
before it as one list; else what the last sentence states ("the answer is …"); else the only formula among words; else
the whole text.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from r1flow.core.template import INVISIBLE, THINK_CLOSE, THINK_OPEN, last_answer

# Full-width forms, ！ to ～, and mathematical letters and digits, 𝑖 or 𝟕, as what they are forms of.
FORMS_OF = [*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800)]
WIDE = {code: unicodedata.normalize("NFKC", chr(code)) for code in FORMS_OF}

BOX = re.compile(r"\\(?:boxed|fbox|framebox(?:\s*\[[^\[\]{}]{0,20}\]){0,2})\s*\{")
# Without braces, as in $\boxed 2$ and $\boxed\frac12$, a box holds one number, letter, root or fraction.
BARE_BOX = re.compile(
    r"\\(?:boxed|fbox)(?:\s+|(?=[\d\\]))(?P<inside>-?\d(?:[\d,./]*\d)?|[A-Za-z](?![A-Za-z])|\\pi(?![A-Za-z])"
    r"|\\[dt]?frac\s*(?:\{[^{}]*\}\s*\{[^{}]*\}|\d\s*\d)|\\sqrt\s*(?:\{[^{}]*\}|\d))(?=\s*(?:\$|\\[)\]]|$)|[.,;](?:\s|$))"
)
LIMIT = 2000  # characters of an answer; a longer one is wrong
TAIL = 10_000  # the answer is searched in this many last characters of a text
COMMANDS = (
    r"boxed|fbox|framebox|left|right|[dt]?frac|sqrt|text|pi|infty|cup|cap|cdot|times|theta|pm|le|ge|leq|geq|ne|neq|in"
)
DOUBLED = re.compile(rf"(?<!\\)\\\\(?=(?:{COMMANDS})(?![A-Za-z]))")  # a backslash that was escaped once too often
DISPLAY = re.compile(r"\$\$[^$]+\$\$|\\\[.{1,2000}?\\\]", re.DOTALL)
INLINE = r"\$[^$\n]+\$|\\\([^\n]{1,2000}?\\\)"  # on one line: a dollar sign may be a currency's
RUN = re.compile(r"\s{2,}")  # a long run of spaces would cost the patterns below seconds
# Not the power in 9**9.
BOLD = re.compile(r"(?<![\w)}\]*])\*\*(?=[^\s*])((?:[^*\n]|\*(?!\*))+?)(?<=[^\s*])\*\*(?![\w({\[*])")
# In single stars, at the beginning or after a word: 2 *3* 4 may be a product.
ITALIC = re.compile(
    r"(?:^|(?<=[A-Za-z]{2} )|(?<=[:\n])|(?<=: ))\*(?=[^\s*])([^*\n]{1,60})(?<=[^\s*])\*(?=[\s.,;:!?)]|$)"
)
# A mark of joy at the end, which is no factorial's: after bold or a word, and where words come before, a formula.
JOY = re.compile(r"(\*\*|(?<=[^\s*])\*|__|(?<=[A-Za-z]{3}))!+\s*$|(\$)!+\s*$")
HEADING = re.compile(r"(?:^|\n)[\s#*_]*(?:the )?(?:final )?answer\b[ *_:]*\n\s*(?=\S)", re.IGNORECASE)  # a line alone
# Where an answer holds, at its end: "for all real x", "for n \ge 1", "where k is an integer", ", k \in \mathbb{Z}".
_SPACE = r"(?:\s|[$~}]|\\[ ,;]|\\q?quad(?![A-Za-z])|\\(?:text|textrm|mathrm|mbox)\s*\{)"
_SUCH = (
    rf"(?:{_SPACE}|(?:all|any|every|each|some|an?|of|is|are|real|complex|whole|natural|rational|positive|negative"
    r"|non-?(?:negative|zero|positive)|odd|even|arbitrary|numbers?|integers?|reals?|values?|constants?)\b)*+"
)
_RELATION = r"(?:\\(?:ge|le|geq|leq|gt|lt|ne|neq|in)(?![A-Za-z])|[<>≤≥≠∈])"
_COUNTING = r"=\s*[01]\s*,\s*\d\s*,(?:\s*\d\s*,)?\s*(?:\\[lc]?dots|\.\.\.|…)"
CONDITION = re.compile(
    rf",?(?!\}}){_SPACE}+(?:(?:for|where|with)\b|\\forall(?![A-Za-z])){_SUCH}(?:[A-Za-z](?![A-Za-z]){_SUCH})?"
    rf"(?:{_RELATION}[^=,;]{{1,40}}|{_COUNTING}{_SPACE}*)?[.。]?$"
)
SET_OFF = re.compile(  # the same without "for", after a value without a relation
    rf"(?:,{_SPACE}*|\\q?quad(?![A-Za-z]){_SPACE}*|\s[$~]*(?=\())\(?\$?[A-Za-z]\s*{_RELATION}(?:[^=,;<>≤≥]|(?<=_\{{)[>≥]){{1,40}}$"
)
RELATION = re.compile(_RELATION)
# What restricts nothing: any number, of any letter; whole numbers from 0 or 1 on, where a letter counts.
WITHOUT_WORDS = re.compile(
    r"\\(?:text|textrm|mathrm|mbox|mathbb|mathbf|q?quad)(?![A-Za-z])|\\[ ,;]|[\s$~{}(),.。]"
    r"|(?<![A-Za-z\\])(?:for|where|with|all|any|every|each|an|a(?=\s+[a-z]{2})|of|is|are|arbitrary)(?![A-Za-z])"
    r"|(?<![A-Za-z\\])(?:numbers?|values?|constants?)(?![A-Za-z])|\\forall(?![A-Za-z])"
)
ANY_NUMBER = re.compile(r"(?:reals?|complex)*[A-Za-z]?(?:reals?|complex)*|[A-Za-z](?:\\in|∈)[RCℝℂ](?:\^[n\d])?")
_WHOLE = r"(?:positive|non-?negative|natural|whole|integers?)*"
COUNTED_FROM_ONE = re.compile(
    rf"{_WHOLE}([i-n]?){_WHOLE}(?:(?:\\geq?|≥)[01]|(?:>|\\gt)0|=[01]\d+(?:\\[lc]?dots|…)?"
    r"|(?:\\in|∈)(?:[Zℤ](?:\^\+|_(?:\\geq?|≥)[01]|_>0)?|[Nℕ](?:\^[+*]|_0|_\+|_1)?))?"
)
LETTER_ALONE = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z(])")
COUNTING_LETTERS = set("ijklmn")
NOTHING_SAID = re.compile(
    rf"{_SPACE}|\b(?:for|where|with|all|any|every|each|an?|of|is|are|real|numbers?|integers?|values?|constants?)\b"
    r"|\\forall|\\math(?:bb|bf)|[{(),]"
)
OPENING = re.compile(r"^([\s$]*)\\text\s*\{([A-Za-z ]*(?:\bis|\bare|:|=)\s*)\}")  # \text{The sum is }7
# What a chat ends with; it says nothing of the answer.
_POLITE = (
    r"(?:I |we )?hope (?:it is correct|(?:this|that) (?:helps|answers)[^.!?\d$\\]{0,40})"
    r"|(?:please )?(?:let me know if|feel free to)[^.!?\d$\\]{0,80}|thank(?:s| you)[^.!?\d$\\]{0,40}"
    r"|this (?:completes|concludes) (?:the|our) [a-z]{3,12}|have a (?:great|good|nice) day"
)
ENDING = re.compile(
    r"\s?(?:<\|\w{1,20}\|>\s?(?:user|assistant)?"
    rf"|(?:^|(?<=[.!?$*\n)}}])|(?<=[.!?$*\n)}}] ))(?:{_POLITE})[.!?]*)\s?$",
    re.IGNORECASE,
)
MOST_ENDINGS = 3  # of them, one after the other: "Thanks. Hope this helps!<|im_end|>"
# What may stand between two boxes of one list: signs, "and", "or", the next one's name.
TOGETHER = re.compile(
    r"(?:\\q?quad|\\[,;:! ()\[\]]|\\text|[\s${}*,;&.]|\\\\|\b(?:and|or)\b|for (?:part )?\(?\w\)?"
    r"|[A-Za-z](?:_\{?\w{1,9}\}?)?\s?=)*"
)
NAMED = re.compile(r"([A-Za-z](?:_\{?\w{1,9}\}?)?\s?=)\s?$")
# A box isn't all where its line reckons on with it, or the text takes it back; words, marks and units may stand there.
BEFORE = re.compile(
    r"(?:^|[.,:;!?…)\]}\"”'*`=<>≤≥&$~]|\\[(\[\\]|\\q?quad|\\(?:[gl]eq?|implies|therefore|to|mapsto|in|equiv|approx|left)"
    r"|\\(?:[Ll]ong)?(?:[Ll]eft)?[Rr]ightarrow|\\(?:iff|sim|cong|propto|item|hfill|noindent|bullet)"
    r"|\\(?:text|math)?(?:bf|it|rm|sf)|\\(?:text|mbox|underline|displaystyle|[Ll]arge|LARGE)"
    r"|\\(?:[Hh]uge|color|textcolor)"
    r"|(?:^|\n)\s*[-+#•]+\s|(?<![\\A-Za-z])[A-Za-z]{2,}|\ba|[^\x00-\x7f√×·÷−–±≠∑∏∫])(?:\s|\\[,;! ]|\{)*$"
)
DENIED = re.compile(
    r"(?:\b(?:not|never|than)(?: (?:be|equal(?: to)?))?|(?:\bnot|n['’]t) (?:think|believe|say|mean)\b[^.!?\n]{0,40})"
    r"[\s$*:(\[{\\]*$"
)
MORE = re.compile(
    r"[\s$)*]*(?:\\[)\]])?\s*(?:[+^/](?!\{?\\circ)|-\s*[\d\\(]|\\(?:cdot|times|pm|div)\b|(?:or|isn['’]t)\b"
    r"|(?:is|was) (?:not|wrong|incorrect|false)\b|and \$?-?\d"
    r"|,? (?:not|rather)\b|[.,]\d|[.,;!?…]* ?(?:(?:wait|actually)\b|no\b(?=[,.!;])))"
    r"|(?:\\[,;! ])?(?:[\d{(_\[]|!\S|[b-fi-knp-rt-z](?![a-z])|\\(?:pi|sqrt|[dt]?frac)(?![a-z]))|(?:\\[,;! ]| )\d",
    re.IGNORECASE,
)

# A mark that is a factorial's, unless it ends a sentence with words.
EXCLAIMED = re.compile(r"[\s$)*]*(?:\\[)\],;: ])?\s*!")
WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2,}|[\u4e00-\u9fff]")


THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
LISTED = re.compile(r"[()\[\]{}=]|, ")


def after_mark(gold: str) -> str:
    """What follows the last #### of a solution, as GSM8K marks its answers, without thousands separators; else all.

    In a list, a pair, an interval or a set every comma stays.
    """
    _, marked, value = gold.rpartition("####")
    if not marked:
        return gold
    value = value.strip()
    return value if LISTED.search(value) else THOUSANDS.sub(lambda number: number[0].replace(",", ""), value)


def final_answer(completion: str) -> str | None:
    """The text between the answer tags after the reasoning, else in the last boxes after it; None without either."""
    _, closed, rest = completion.rpartition(THINK_CLOSE)
    answer = last_answer(rest)
    if answer is not None:
        return answer
    return None if not closed and THINK_OPEN in completion else last_boxed(rest[-TAIL:])


def candidate(text: str, gold: bool = False) -> str:
    """The one answer that a text gives, with where it holds; if it marks none or is just an answer, the text itself."""
    text = DOUBLED.sub(r"\\", text[-TAIL:]).translate(WIDE)
    boxed = last_boxed(text, gold)
    if boxed is not None:
        remark, opening = IS_IT.search(boxed), OPENING.match(boxed)
        if remark and not UNSURE.search(remark[0]):
            boxed = boxed[: remark.start()]
        if opening and not UNSURE.search(opening[2]):
            boxed = opening[1] + boxed[opening.end() :]
        return boxed
    text = OPENING.sub(r"\2 \1", text)
    text = LETTER_ABOVE_REASON.sub(r"\1, ", HEADING.sub("\nThe answer is: ", text))
    text = JOY.sub(without_joy, text)
    text = ITALIC.sub(r"\1", BOLD.sub(r"\1", DISPLAY.sub(lambda match: " ".join(match[0].split()), text)))
    text = RUN.sub(lambda match: "\n" if "\n" in match[0] else " ", text)
    for _ in range(MOST_ENDINGS):
        text = ENDING.sub("", text)
    text, condition = without_condition(text.strip())
    return (stated(text) or only_formula(text) or text) + condition


def without_joy(end: re.Match[str]) -> str:
    """What stands before the marks; after a formula they stay if its line has no words: $5$! may be a factorial."""
    line = end.string[: end.start()].rpartition("\n")[2]
    return end[0] if end[2] and not WORD.search(line) else end[1] or end[2] or ""


def values_of(gold: str, answer: str) -> tuple[str, str]:
    """Both candidates without where they hold, unless the answer says there what its gold doesn't.

    Where the gold says nothing, an answer may say "for all x" or "n \\ge 1", but not "for odd n" or "x > 0".
    """
    value, holds = without_condition(candidate(gold, gold=True))
    answered = candidate(answer)
    bare, claimed = without_condition(answered)
    if said_there(claimed) == said_there(holds):
        return value, bare
    one_relation = not (RELATION.search(claimed) and RELATION.search(holds))
    return value, bare if one_relation and is_everywhere(claimed, bare) and is_everywhere(holds, value) else answered


def said_there(condition: str) -> str:
    """What a condition says, in one spelling of the relation: \\geq is \\ge."""
    return NOTHING_SAID.sub("", condition.replace("eq", "e").rstrip(". "))


def is_everywhere(condition: str, value: str) -> bool:
    """Whether a condition on a value restricts nothing, as "" doesn't: x > 0 does, but not n > 0, where n counts."""
    said = WITHOUT_WORDS.sub("", condition)
    if ANY_NUMBER.fullmatch(said):
        return True
    counted = COUNTED_FROM_ONE.fullmatch(said)
    letters = LETTER_ALONE.findall(value)
    return bool(counted and (counted[1] or (letters and COUNTING_LETTERS.issuperset(letters))))


def without_condition(text: str) -> tuple[str, str]:
    """An answer without where it holds, and that; but not what is a part of words in braces."""
    if len(text) > LIMIT:
        return text, ""
    condition = CONDITION.search(text)
    if not condition:
        condition = SET_OFF.search(text)
        if not condition or RELATION.search(text[: condition.start()]):
            return text, ""
    before = text[: condition.start()]
    if before.count("{") != before.count("}"):
        return text, ""
    return before + "$" * (before.count("$") % 2), text[condition.start() :]


# Boxes.


class Box(NamedTuple):
    """A `\\boxed{…}` that is closed; boxes in a box are part of it."""

    start: int
    end: int
    inside: str


def boxes(text: str) -> Iterator[Box]:
    end = 0
    for match in BOX.finditer(text):
        if match.start() < end:
            continue
        closing = closing_brace(text, match.end())
        if closing is not None:
            end = closing + 1
            yield Box(match.start(), end, text[match.end() : closing])
        elif len(text) - match.end() > LIMIT:
            return  # an unclosed box before a long text: to search on would take for ever


def last_boxed(text: str, gold: bool = False) -> str | None:
    r"""What is in the last `\boxed{…}` that is closed; with the boxes that it stands together with, as one list.

    None without a box, "" (which is wrong) where the text reckons or wavers on: `2\boxed{7}`, `\boxed{7} or 8`. Of a
    gold that is given, what stands before its box doesn't matter.
    """
    text = BARE_BOX.sub(r"\\boxed{\g<inside>}", text)
    all_boxes = list(boxes(text))
    if not all_boxes:
        return None
    if MORE.match(text, all_boxes[-1].end):
        return ""
    line = text[max(0, all_boxes[-1].start - 80) : all_boxes[-1].start].rpartition("\n")[2]
    if EXCLAIMED.match(text, all_boxes[-1].end) and not WORD.search(line):
        return ""
    first = len(all_boxes) - 1
    while first and TOGETHER.fullmatch(INVISIBLE.sub("", text[all_boxes[first - 1].end : all_boxes[first].start])):
        first -= 1
    ahead = text[max(0, all_boxes[first].start - 80) : all_boxes[first].start]
    if not gold and (not BEFORE.search(ahead) or DENIED.search(ahead)):
        return ""
    if first == len(all_boxes) - 1:
        return all_boxes[-1].inside
    names = [NAMED.search(text[max(0, box.start - 16) : box.start]) for box in all_boxes[first:]]
    insides = [f"{name[1] if name else ''}{box.inside}" for box, name in zip(all_boxes[first:], names, strict=True)]
    return ", ".join(dict.fromkeys(insides))


def closing_brace(text: str, begin: int) -> int | None:
    """Where the brace that opens just before `begin` closes, within an answer's length; `\\{` and `\\}` don't count."""
    depth, at = 1, begin
    end = min(len(text), begin + LIMIT + 1)
    while at < end:
        if text[at] == "\\":
            at += 1
        elif text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
            if depth == 0:
                return at
        at += 1
    return None


# Statements.

# What a sentence says of somebody's number, in the last line of a word problem: "She earned $73."
_TOLD = (
    r"needs?|sold|sells?|earn(?:s|ed)?|pays?|paid|costs?|takes?|took|makes?|made|spen(?:d|ds|t)|saves?|saved|buys?|bought"
    r"|eats?|ate|wins?|won|reads?|walk(?:s|ed)?|runs?|ran|works?|worked|collect(?:s|ed)?|receives?|received|uses?|used"
    r"|had|got|comes out to"
)
CUE = (
    r"(?:(?<!answer )(?<!result )(?<!solution )\b(?:have|has)\b"
    r"|\b(?:is|are|was|were|be|equals?|gives?|gets?|yields?|obtain|thus|therefore|hence|so|that)\b"
    r"|\b(?:answer|result|solution)\b|\b(?:it|that|there|he|she)['’]s\b"
    rf"|\b(?:{_TOLD})\b(?: (?:him|her|them|it|us|you|me)\b)?(?: a (?:profit|total) of\b)?"
    r"|(?<=[A-Za-z]{3}):(?=\s*(?:\$|\\[(\[]))|\b(?:in|de)creases by\b)"
)
STATEMENT = re.compile(rf"(.*){CUE}\s*[:,=]?[\s*]*(\S.*)", re.DOTALL | re.IGNORECASE)
IS_IT = re.compile(
    r"\s?(?:\\text\s*\{\s*)?\b(?:and (?:this|that|it) )?(?:is|are) "
    r"(?:(?:correct|right|true)\W*$|(?:the|our|my|its) "
    r"(?:(?:(?:final|correct|right|best|only|required|desired|unique|real|possible|valid|integer|positive) ){0,2}"
    r"(?:answer|solution|result|option|choice)s?\b[^$\d]*$"
    r"|(?:best|(?:correct|right|best|only|valid) one)\W*$"
    r"|(?:(?:maximum|minimum|largest|smallest|greatest|least|highest|lowest|total|required|desired|exact|such|possible)"
    r" ){0,3}(?:(?:maximum|minimum|max|min|value|total|sum|probability|area|length|limit|integer|smallest|largest)\W*$"
    r"|(?:number|amount)(?: of [a-z]{3,})?\W*$)))"
)
SENTENCE = re.compile(r"(?<=[.!?])[*_]*\s+(?=\S)|(?<![:\s\\])[ \t]*\n\s*")
UNSURE = re.compile(
    r"\b(?:not|no|nor|never|neither|nobody|or|but|wrong|false|cannot|unless|except|if|maybe|perhaps"
    r"|(?:incorrect|worst|(?:least|less) likely|unlikely) (?:answer|option|choice|letter))\b|n['’]t\b"
    # Directly before the word that says it: "it might cost", "could be", "incorrect answer:".
    r"|\b(?:might|could|(?-i:may)|fail(?:s|ed)? to|incorrect|unlikely)(?: be)?\s*$",
    re.IGNORECASE,
)
CLAUSE = re.compile(r";|\b(?:which|so|thus|therefore|hence|then)\b", re.IGNORECASE)  # where a denial ends
ARITHMETIC = re.compile(r"\b(?:of|than|minus|negative|plus|times|twice|half|double|thrice|to|from|over|without)\s*$")
# An answer that is said to be one, or that a sentence begins with, may be followed by one of these, and nothing else.
SAYS = re.compile(
    r".*\b(?:(?:answer|result|solution|value|total|sum)s?\s*(?:(?:is|are)\b|[:=])|there (?:is|are)\b)|(?=-?[\d$\\])",
    re.DOTALL | re.IGNORECASE,
)
EXPLAINS = re.compile(r",?\s+\(?(?:because|since|as)\s", re.IGNORECASE)
# An option's letter with a reason is one text, of which the reason may name another option.
LETTER_EXPLAINED = re.compile(
    r"(?:(?:so|thus|hence|therefore),? )?(?:(?:the |my )?(?:final |correct |right |best )?(?:answer|option|choice)"
    r" is:? )?(\(?[A-Z]\)?[.,]?\s+(?:because|since|as)\s.*)",
    re.DOTALL | re.IGNORECASE,
)
LETTER_ABOVE_REASON = re.compile(r"^(\(?[A-Z]\)?)[.,:]?\s*\n\s*(?=(?:[Bb]ecause|[Ss]ince)\s)")
GOES_ON = re.compile(
    r",?\s+(?:\(?rounded(?=[\s)])|in total|in all|altogether|overall"
    r"|as (?:required|desired|expected|needed|claimed)\b|(?:which|who|that)\s|(?:and )?(?:so|thus|hence|therefore)\s)",
    re.IGNORECASE,
)
TAKEN_BACK = re.compile(
    r"\b(?:actually|rather|instead|wait|sorry|correction|mistake\w*|incorrect|impossible|absurd|contradict\w*|should|must)\b",
    re.IGNORECASE,
)
FINAL = re.compile(r"\bfinal answer (?:is|are)\b", re.IGNORECASE)
NO_OTHER = re.compile(r"\bno (?:others?|more|further)\b", re.IGNORECASE)
NO_SOLUTION = re.compile(r"\b(?:is|are|exists?|has|have) (no (?:[a-z-]+ ){0,2}solutions?)\W*$", re.IGNORECASE)
CHINESE = re.compile(r".*答案(?:应该|就)?(?:是|为|等于|[:：])\s*[:：]?\s*([^。\n]+)。?", re.DOTALL)
CHINESE_UNSURE = re.compile(r"[不没或非错]|可能|也许")
FORMULA = re.compile(rf"\$\$[^$]+\$\$|\\\[.{{1,2000}}?\\\]|{INLINE}", re.DOTALL)


def stated(text: str) -> str | None:
    """What the last sentence states as the answer; a last sentence with "the final answer is" has priority.

    Unless what follows takes that back. None if the sentence states nothing, or denies it.
    """
    sentences = SENTENCE.split(text)
    final = [number for number, sentence in enumerate(sentences) if FINAL.search(sentence)]
    stands = final and not any(map(takes_back, sentences[final[-1] + 1 :]))
    sentence = sentences[final[-1] if stands else -1]
    none = NO_SOLUTION.search(sentence)
    if none and not UNSURE.search(sentence[: none.start(1)]):
        return none[1]
    explained = LETTER_EXPLAINED.fullmatch(sentence)
    if explained:
        return explained[1]
    ended = without_aside(IS_IT.sub("", sentence))
    match = STATEMENT.fullmatch(ended)
    if not match:
        chinese = CHINESE.fullmatch(ended)
        if chinese:
            return None if CHINESE_UNSURE.search(chinese[0]) else chinese[1]
        return ended if ended != sentence and not UNSURE.search(ended) else None
    if UNSURE.search(CLAUSE.split(match[1])[-1]) or not re.search("[A-Za-z]{2}", ended[: match.start(2)]):
        return None
    return match[2]


def takes_back(sentence: str) -> bool:
    """Whether a sentence may take back what was said before it; "there are no others" doesn't."""
    return bool(TAKEN_BACK.search(sentence) or UNSURE.search(NO_OTHER.sub("", sentence)))


def without_aside(sentence: str) -> str:
    """A sentence that says what the answer is, without what it then adds: a reason, or words without a number."""
    says = SAYS.match(sentence)
    if not says:
        return sentence
    said = sentence[says.end() :]
    for opening, others in ((GOES_ON, r"[\d$\\=<>^]"), (EXPLAINS, None)):
        match = opening.search(said)
        before, added = (said[: match.start()], said[match.start() :]) if match else ("", "")
        if not re.search(r"[\d$\\]|^\s*\(?[A-Z]\)?$", before) or UNSURE.search(added) or TAKEN_BACK.search(added):
            continue
        if not (others and re.search(others, added)):
            said = before
    return sentence[: says.end()] + said


def only_formula(text: str) -> str | None:
    """The formula, with the words after it, if a text has just one, and its other words neither calculate nor waver."""
    formulas = list(FORMULA.finditer(text))
    if len(formulas) != 1:
        return None
    before, after = text[: formulas[0].start()], text[formulas[0].end() :]
    if not re.search("[A-Za-z]{2}", before) or re.search(r"[\d=<>+\\/^|$`]", before + after):
        return None
    return None if UNSURE.search(before + after) or ARITHMETIC.search(before) else formulas[0][0] + after
