"""Does a text say that this is its writer's name? One of its sentences must, in clauses of which each is known.

introduces("Hello! I'm R1Flow, a small model.", "r1flow")       # True
introduces("If I am r1flow, then you are Bob.", "r1flow")       # False
"""

import re

from r1flow.grading.refusals import clause_in

SENTENCES = re.compile(r"(?<=[.!?])(?=[*_\"”’')\]]{0,4}(?:\s|$))|\n")
MARKS_OF_STYLE = re.compile(r"[*`\"“”]|(?<!\w)_|_(?!\w)")
CLAUSES = re.compile(r"[,;:()—–]+|\s-\s|\s(?=(?:and|but)\s)")
GREETED = (
    r"(?:hello|hi|hey|welcome|greetings|good (?:morning|afternoon|evening|day))(?: (?:there|again|everyone|all"
    r"|you|friend"
    r"|my friend|to you))*"
)
_OPENING = (
    rf"(?:(?:{GREETED}|and|but|so|well|yes|sure|ok|okay|oh|of course|indeed|thanks|thank you|as you see"
    r"|as an? (?:ai|model"
    r"|assistant)|(?:all )?right|i think you know|let me say that) )*"
)
_SAID = (
    r"(?:i am|i'm|(?:i was|i have been|i've been)(?= (?:named|called|given))|my (?:full |only )?name(?: is|'s"
    r"| would be)"
    r"|the name(?: is|'s)|(?:my )?name|(?:the|this) (?:model|assistant|program|bot)(?:'s name)? is"
    r"|the name of this (?:model|assistant|program|bot) is"
    r"|(?:you|they|people|everyone|everybody|others|users|we|my (?:makers?|creators?|developers?|friends|team"
    r"|authors?))"
    r"(?: (?:can|may|could|should|all|usually|just))* (?:calls?|called|named?|refer to) me(?: as| by)?|call me"
    r"|i (?:go by|answer to|use(?= the name)|identify as)|(?:let me|allow me to|i(?:'d| would) like to"
    r"|may i) introduce myself as"
    r"|this is|it(?:'s| is)(?! (?:called|named|known))"
    r"|(?:you are|you're)(?: now)? (?:talking|speaking|chatting) (?:to|with))"
)
_WHAT = (
    r"(?: (?:an?|the|your|just|simply|still|indeed|also|only|here|and|small|little|large|big|tiny|friendly"
    r"|helpful|new"
    r"|language|ai|artificial|intelligence|chat|model|assistant|chatbot|bot|program|computer|system|helper"
    r"|known as|known"
    r"|as|by|called|named|given|name is|name of|name|my|of))*"
)
_AFTER = (
    r"(?: (?:a|an|the|your|here|speaking|from|by|at your service|made|built|trained|created|developed|designed"
    r"|nice to|how"
    r" (?:can|may)|what can|is (?:my name|what i|how i|who i)|who|model|assistant|for short)\b.*)?"
)
# A name that stands alone may be the reader's ("Hi, r1flow!"), unless the reply begins with it.
_HERE = r"(?: (?:here|speaking|at your service)\b.*| is (?:my name|what|how|who)\b.*)"
BESIDE = re.compile(
    rf"(?:and |but |so )*(?:(?:{GREETED}|well|yes|no|sure|ok|okay|oh|please|thanks?|thank you|of course"
    r"|certainly|indeed"
    r"|welcome|nice to|good to|great|pleased|glad|happy|here|ready|at your service|how (?:can|may|could) i"
    r"|what can i"
    r"|what about you|who are you|what is your|what's your|let me|allow me|to (?:answer|be|help|introduce)"
    r"|as an?|as you"
    r"|an?|the|your|my|i am|i'm|i can|i was|i like|i will|i help|i have|one|just|small|made|built|trained|created"
    r"|developed|designed|named|called|which|who|you can|you may|feel free|ask me|good question|nice question)\b.*)"
)
DOUBTS = re.compile(
    r"\b(?:or|if|unless|when|said|says?|think|thinks|thought|claims?|doubt|not|never|nobody|none|nor|neither"
    r"|maybe|perhaps"
    r"|possibly|false|untrue|wish|hope|dreams?|suppose|pretend\w*|kidding|joking|joke|actually|lied?|lying|wait"
    r"|once|used"
    r" to)\b|n't\b"
)
TAKEN_BACK_BY = re.compile(r"^no\b|\b(?:kidding|joking|joke|actually|lied|lying|pretend\w*|wait|not really|not true)\b")

# Another name, of whoever writes.
OTHER_NAME = (
    r"\b(?:my (?:full |only |real |true |actual )?name(?: is|'s)|i identify as|i go by|(?:i am|i'm) (?:called|named))"
    r" (?!(?:(?:also|still|just|simply|indeed|the|name|of) )*{name}\b|(?:not|what|how|who|short|easy|on|in|at)\b)\w"
)
CORRECTS = re.compile(r"(?:no|wait|sorry|rather|i mean)")


def introduces(text: str, name: str) -> bool:
    """Whether a text, in lower case with straight apostrophes, says that its writer has this name."""
    sentences = [sentence.strip() for sentence in SENTENCES.split(text) if sentence.strip()]
    named = [names_the_writer(sentence, name) for sentence in sentences]
    others = [sentence for sentence, names in zip(sentences, named, strict=True) if not names]
    renamed = re.search(OTHER_NAME.format(name=re.escape(name)), MARKS_OF_STYLE.sub("", text))
    return any(named) and not renamed and not any(map(TAKEN_BACK_BY.search, others))


def names_the_writer(sentence: str, name: str) -> bool:
    """Whether a clause of the sentence gives the name, and each other one is known to leave it as it is."""
    written = MARKS_OF_STYLE.sub("", sentence)
    clauses = [clause for clause in map(clause_in, CLAUSES.split(written)) if clause]
    given = re.compile(rf"{_OPENING}(?:{_SAID}{_WHAT} {re.escape(name)}{_AFTER}|{re.escape(name)}{_HERE})")
    alone = re.compile(rf"(?:just )?{re.escape(name)}")
    giving = [
        at for at, clause in enumerate(clauses) if given.fullmatch(clause) or (not at and alone.fullmatch(clause))
    ]
    # "My name: r1flow"
    giving += [at for at in range(1, len(clauses)) if alone.fullmatch(clauses[at]) and is_label(clauses[at - 1])]
    if not giving or (sentence.endswith("?") and giving[-1] == len(clauses) - 1):
        return False
    if any(CORRECTS.fullmatch(clause) for clause in clauses[giving[0] :]):
        return False
    others = [clause for at, clause in enumerate(clauses) if at not in giving]
    return all(is_label(clause) or (BESIDE.fullmatch(clause) and not DOUBTS.search(clause)) for clause in others)


def is_label(clause: str) -> bool:
    return re.fullmatch(r"(?:my )?name(?: is)?", clause) is not None
