"""A model drafts an answer, says what it lacks, has that looked up in a folder of texts, and revises the answer.

    sampler = load_chat_sampler(Path("models/qwen"), "auto", batch_size=1)
    chat = Chat(Path("models/qwen"), sampler, SamplingParams(0.6, 0.95, 512), seed=1)
    found = research("Who built the bridge?", chat, Passages(Path("notes")))
    found.answer                # "Anna Berg built it in 1890 [2]."

After Reflexion (Shinn et al. 2023, arXiv 2303.11366) as agents of LangGraph's kind do it: each turn is a JSON object
that is checked against a schema. What isn't valid is shown to the model once, with the reason, and then counts as
failed: a failed turn changes no answer. References are numbers of passages that the model was shown; any other number
is no valid one. `research_report` plans sections, looks up each, and writes them with the same checks. Every turn is
kept, as text and as what was read of it. Seeds depend on the seed, on what is asked and on the attempt.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from r1flow.api.examination import prompt_in_template
from r1flow.core.errors import UserError
from r1flow.core.template import Response
from r1flow.data.passages import Passage, Passages
from r1flow.sampling import Sampler, SamplingParams, encode, seed_of, with_opened_thought

ROUNDS = 3  # of look-ups and revisions, at most
FOUND = 3  # passages for each query
MOST_QUERIES, MOST_SECTIONS = 3, 6
FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
CITED = re.compile(r"\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]")

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class Draft(BaseModel, extra="forbid", strict=True):
    """An answer, with what the model itself says about it."""

    answer: Text
    missing: str
    superfluous: str
    queries: list[Line] = Field(max_length=MOST_QUERIES)


class Revision(Draft):
    """A draft that says on which passages it rests."""

    references: list[int]


class Outline(BaseModel, extra="forbid", strict=True):
    """The titles of a report's sections."""

    sections: list[Line] = Field(min_length=1, max_length=MOST_SECTIONS)


class Section(BaseModel, extra="forbid", strict=True):
    """A section of a report, with the passages on which it rests."""

    text: Text
    references: list[int]


KEYS = {
    Draft: '{"answer": "…", "missing": "what the answer lacks", "superfluous": "what it could do without", '
    f'"queries": ["what to look up", at most {MOST_QUERIES}; none if nothing is missing]}}',
    Outline: f'{{"sections": ["title", at most {MOST_SECTIONS}]}}',
    Section: '{"text": "one to three paragraphs, with [1] after what passage 1 says", "references": [1]}',
}
KEYS[Revision] = (
    KEYS[Draft].removesuffix("}").replace('"…"', '"…, with [1] after what passage 1 says"') + ', "references": [1]}'
)


@dataclass
class Exchange:
    """One thing that was asked of the model: what was read of its reply, or the fault of its second one."""

    kind: str  # draft, revision, outline, section
    said: BaseModel | None = None
    fault: str | None = None
    prompts: list[str] = field(default_factory=list)  # of each attempt
    completions: list[str] = field(default_factory=list)
    tokens_read: int = 0
    tokens_written: int = 0
    found: list[int] = field(default_factory=list)  # numbers of the passages that were looked up for it


@dataclass
class Research:
    """All turns on one question; `passages[0]` is reference 1."""

    question: str
    turns: list[Exchange] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    text: str = ""  # the report, in Markdown
    stopped: str | None = None  # why its last turn couldn't be asked, and no other was

    @property
    def answer(self) -> str | None:
        """The newest valid answer."""
        answers = [turn.said.answer for turn in self.turns if isinstance(turn.said, Draft)]
        return answers[-1] if answers else None

    @property
    def references(self) -> list[int]:
        """The numbers of the passages on which the newest answer, or the report, rests."""
        sections = [turn.said for turn in self.turns if isinstance(turn.said, Section)]
        revisions = [turn.said for turn in self.turns if isinstance(turn.said, Revision)]
        numbers = {number for said in sections or revisions[-1:] for number in said.references}
        return sorted(numbers)

    def ask(
        self, chat: "Chat", turn: Exchange, asked: str, schema: type[BaseModel], shown: Sequence[int] = ()
    ) -> BaseModel | None:
        """What is said in the next turn, which is kept. Raises UserError only if the first can't be asked."""
        try:
            chat.ask(turn, asked, schema, shown)
        except UserError as error:
            if not self.turns:
                raise
            self.stopped = turn.fault = str(error)
        self.turns.append(turn)
        return turn.said

    def look_up(self, passages: Passages, queries: Sequence[str], most: int) -> list[int]:
        """The numbers of what is found for these queries, in order; what is new gets the next number."""
        numbers = {}
        for query in queries:
            for passage in passages.find(query, most):
                if passage not in self.passages:
                    self.passages.append(passage)
                numbers[self.passages.index(passage) + 1] = None
        return list(numbers)

    def shown(self, numbers: Sequence[int]) -> str:
        """These passages as the model reads them."""
        lines = [f"[{number}] {self.passages[number - 1].text}" for number in numbers]
        return "\n".join(lines) or "(nothing was found)"

    def as_dict(self) -> dict[str, Any]:
        turns = []
        for turn in self.turns:
            turns.append({**vars(turn), "said": turn.said and turn.said.model_dump()})
        return {
            "question": self.question,
            "answer": self.answer,
            "references": self.references,
            "report": self.text,
            "turns": turns,
            "passages": [asdict(passage) for passage in self.passages],
        }


@dataclass(frozen=True)
class Chat:
    """A model that is asked for JSON objects; `on_turn` is told each turn as soon as it is done."""

    model: Path
    sampler: Sampler
    params: SamplingParams
    seed: int
    on_turn: Callable[[Exchange], None] | None = None

    def ask(self, turn: Exchange, asked: str, schema: type[BaseModel], shown: Sequence[int] = ()) -> None:
        """Ask for an object of this schema, a second time if the first reply isn't one; `shown` may be referred to."""
        before: list[dict[str, str]] = []
        question = f"{asked} Reply with one JSON object and nothing else: {KEYS[schema]}"
        for attempt in range(2):
            prompt = prompt_in_template(self.model, self.sampler, question, before)
            [drawn] = self.sampler.sample([prompt], self.params, [seed_of(self.seed, asked, attempt)])
            completion = with_opened_thought(prompt, drawn)
            turn.prompts.append(prompt)
            turn.completions.append(completion.text)
            turn.tokens_read += tokens_of(self.sampler, prompt)
            turn.tokens_written += len(completion.ids)
            turn.said, turn.fault = read_object_of(schema, completion.text, shown)
            if turn.said is not None:
                break
            reply = Response.parse(completion.text).summary
            before += [{"role": "user", "content": question}, {"role": "assistant", "content": reply or "(nothing)"}]
            question = f"That can't be used: {turn.fault}. Reply with one JSON object and nothing else: {KEYS[schema]}"
        if self.on_turn:
            self.on_turn(turn)


def tokens_of(sampler: Sampler, prompt: str) -> int:
    """How many tokens the model reads; of a server that renders prompts itself, about as many as the messages have."""
    return len(encode(getattr(sampler, "words", sampler.tokenizer), [prompt])[0])


def read_object_of(
    schema: type[BaseModel], completion: str, shown: Sequence[int]
) -> tuple[BaseModel | None, str | None]:
    """The object in a completion, after the reasoning, in a code fence or alone; else None, and what is wrong."""
    reply = Response.parse(completion).summary.strip()
    fenced = FENCE.search(reply)
    try:
        said = schema.model_validate_json(fenced[1] if fenced else reply)
    except ValidationError as error:
        faults = []
        for each in error.errors(include_url=False, include_input=False)[:3]:
            faults.append(": ".join([*map(str, each["loc"]), each["msg"]]))
        return None, "; ".join(faults)
    fault = reference_fault(said, shown) if isinstance(said, Revision | Section) else None
    return (None, fault) if fault else (said, None)


def reference_fault(said: Revision | Section, shown: Sequence[int]) -> str | None:
    """What is wrong with references: a passage that wasn't shown, or one that the text names and the list doesn't."""
    if unknown := [number for number in said.references if number not in shown]:
        has = ", ".join(map(str, shown)) or "none"
        return f"references: there is no passage {unknown[0]}; the passages are {has}"
    cited: set[int] = set()
    for group in CITED.findall(said.answer if isinstance(said, Revision) else said.text):
        cited |= set(map(int, group.split(",")))
    if unlisted := sorted(cited - set(said.references)):
        return f"references: the text names [{unlisted[0]}], which isn't among them"
    return None


def research(question: str, chat: Chat, passages: Passages, rounds: int = ROUNDS, found: int = FOUND) -> Research:
    """Answer a question in at most so many rounds; it ends earlier where the model asks for nothing, or nothing new."""
    done = Research(question)
    asked = f"Question: {question}\n\nAnswer it from what you know, and say what your answer lacks."
    last, seen = done.ask(chat, Exchange("draft"), asked, Draft), []
    for _ in range(rounds):
        queries = last.queries if last else [question]
        new = [number for number in done.look_up(passages, queries, found) if number not in seen]
        if not new:
            break
        seen += new
        asked = f"Question: {question}\n\nYour answer so far: {last.model_dump_json() if last else 'none'}\n\n"
        asked += f"Passages that were looked up:\n{done.shown(seen)}\n\nRevise your answer by these passages alone."
        last = done.ask(chat, Exchange("revision", found=new), asked, Revision, seen) or last
        if done.stopped:
            break
    return done


def research_report(question: str, chat: Chat, passages: Passages, found: int = FOUND) -> Research:
    """Write a report on a question: an outline, then each section from what is looked up for it."""
    done = Research(question)
    plan = done.ask(chat, Exchange("outline"), f"Plan a short report on this question: {question}\n\n", Outline)
    if plan is None:
        return done
    parts = [f"# {question}"]
    for title in plan.sections:
        numbers = done.look_up(passages, [title, f"{title} {question}"], found)
        asked = f"You are writing a report on this question: {question}\n\nPassages:\n{done.shown(numbers)}\n\n"
        asked += f"Write its section {title!r} from these passages alone."
        said = done.ask(chat, Exchange("section", found=numbers), asked, Section, numbers)
        parts.append(f"## {title}\n\n{said.text if said else '*No valid section was written.*'}")
        if done.stopped:
            break
    done.text = "\n\n".join([*parts, *reference_lines(done)]) + "\n"
    return done


def reference_lines(done: Research) -> Iterator[str]:
    """The list of references, in Markdown."""
    for number in done.references:
        passage = done.passages[number - 1]
        yield f"[{number}] {passage.file}, line {passage.line}: {passage.text}"


def check_counts(rounds: int, found: int) -> None:
    """Raises UserError."""
    for name, value in (("rounds", rounds), ("found", found)):
        if not 0 < value <= 100:
            raise UserError(f"{name}: {value}; use 1 to 100")
