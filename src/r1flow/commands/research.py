"""Lets a model answer a question from a folder of texts: draft, look up, revise; or write a report on it.

    r1flow research "Who built the bridge?" --model models/qwen --folder notes

    draft      looks up: bridge built by
    revision   from 3 new passages; looks up nothing more

    Anna Berg built it in 1890 [2].

    [2] bridges.md, line 14: The old bridge was built by Anna Berg in 1890, …

    1,204 tokens read, 310 written; 2 turns, 0 of them without a valid reply

Every turn is kept in a folder: turns.jsonl has prompts, completions and what was read of them, and research.md the same
for people. Left out: the network, and search by meaning.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r1flow.artifacts.folders import model_folder
from r1flow.commands.finding import add_json, add_sampling, cut, tell
from r1flow.core.errors import UserError, printable
from r1flow.core.files import write_whole
from r1flow.sampling import AUTO, SamplingParams

if TYPE_CHECKING:
    from r1flow.api.answering import Chat, Exchange, Research

SHOWN = 200  # characters of a passage, in the terminal
# What makes two calls the same question, asked in the same way.
ASKED = ("question", "model", "folder", "report", "rounds", "found", "gold", "engine", "url", "served")
ASKED += ("temperature", "top_p", "max_new_tokens", "seed")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Let a model draft an answer, say what it lacks, look that up in a folder of texts (.txt, .md, .rst, .jsonl "
        'with rows {"text": …}) and revise its answer, round by round. The model must be able to reply in JSON; small '
        "ones rarely are, and then this says so. Nothing is looked up outside the folder."
    )
    parser.add_argument("question", metavar="QUESTION", help="for example 'Who built the bridge?'")
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL_DIR", help="the model's folder")
    parser.add_argument("--folder", type=Path, required=True, metavar="TEXTS", help="where to look things up")
    parser.add_argument("--report", action="store_true", help="write a report of several sections instead")
    parser.add_argument("--rounds", type=int, default=3, help="look-ups and revisions, at most (default: 3)")
    parser.add_argument("--found", type=int, default=3, help="passages for each query (default: 3)")
    parser.add_argument("--gold", help="the right answer in a few words; a turn is right if its answer has them")
    parser.add_argument("--url", help="ask this server in place of an engine, such as http://127.0.0.1:8000/v1")
    parser.add_argument("--served", metavar="NAME", help="what the server calls the model (default: it says so itself)")
    add_sampling(parser)
    parser.add_argument("--max-new-tokens", type=int, default=1024, help="longest reply, in tokens (default: 1024)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where all turns are kept (default: research/…)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; the exit code is 1 where the model gave none, nor a section of a report."""
    from r1flow.api.answering import Section, check_counts, research, research_report
    from r1flow.data.passages import Passages

    check_counts(arguments.rounds, arguments.found)
    if arguments.gold is not None and not re.search(r"\w", arguments.gold):
        raise UserError("--gold has no word; write the right answer")
    if not arguments.question.strip():
        raise UserError("QUESTION is empty; write a question in quotes")
    out = arguments.out or Path("research", named(arguments))
    check_together(arguments, out)
    passages = Passages(arguments.folder)
    chat = load_chat(arguments)
    if arguments.report:
        done = research_report(arguments.question, chat, passages, arguments.found)
    else:
        done = research(arguments.question, chat, passages, arguments.rounds, arguments.found)
    told = done.as_dict() | {"model": str(arguments.model), "folder": str(arguments.folder)}
    if arguments.gold is not None:
        grade_turns(told["turns"], arguments.gold)
    keep(out, told, done)
    if done.stopped:
        raise UserError(f"{done.stopped}; the turns before are in {out}")
    told["out"] = str(out)
    tell(told, printable("\n".join(research_told(done, told))), arguments.json)
    return int(not (done.answer or any(isinstance(turn.said, Section) for turn in done.turns)))


def check_together(arguments: argparse.Namespace, out: Path) -> None:
    """Refuse options that would have no effect beside others, and turns among the texts, where the next one reads them.

    Raises UserError.
    """
    if arguments.report and arguments.gold is not None:
        raise UserError("--gold: a report has no answer that is right or wrong; leave out --gold or --report")
    if arguments.served is not None and arguments.url is None:
        raise UserError("--served: it is a server's word for the model; name the server with --url, or leave it out")
    if arguments.url is not None and arguments.engine != AUTO:
        raise UserError("--engine: a server samples with its own; leave out --engine or --url")
    if out.resolve().is_relative_to(arguments.folder.resolve()):
        raise UserError(f"--out {out}: it is in the folder of the texts, {arguments.folder}; name one outside of it")


def load_chat(arguments: argparse.Namespace) -> "Chat":
    """The model behind the same calls, wherever it is; raises UserError."""
    from r1flow import sampling
    from r1flow.api.answering import Chat
    from r1flow.api.examination import load_chat_sampler
    from r1flow.artifacts.contract import try_apart

    params = SamplingParams(arguments.temperature, arguments.top_p, arguments.max_new_tokens)
    model = model_folder(arguments.model)
    if arguments.url is None:
        sampler = load_chat_sampler(model, arguments.engine, batch_size=1)
    else:
        options = {"url": arguments.url, "chat": True}
        options |= {} if arguments.served is None else {"model": arguments.served}
        try_apart(model)  # as load_chat_sampler does
        sampler = sampling.load_sampler(model, "openai", batch_size=1, options=options)
    return Chat(model, sampler, params, arguments.seed, on_turn=None if arguments.json else print_turn)


def named(arguments: argparse.Namespace) -> str:
    """A folder's name that the same question, asked in the same way, has again."""
    asked = {name: str(getattr(arguments, name)) for name in ASKED}
    words = "".join(char if char.isalnum() else "-" for char in arguments.question.lower())[:40].strip("-")
    return f"{words}-{hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]}"


def grade_turns(turns: list[dict[str, Any]], gold: str) -> None:
    """Add to each turn whether its answer has the words of the right one: `correct`, None without an answer."""
    words = re.findall(r"\w+", gold.lower())
    wanted = re.compile(r"\b" + r"\W+".join(words) + r"\b")
    for turn in turns:
        answer = (turn["said"] or {}).get("answer")
        turn["correct"] = None if answer is None else bool(wanted.search(answer.lower()))


def keep(out: Path, told: dict[str, Any], done: "Research") -> None:
    """Write all turns, for programs and for people; raises UserError."""
    lines = [json.dumps(turn, ensure_ascii=False) for turn in told["turns"]]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_whole(out / "turns.jsonl", "".join(f"{line}\n" for line in lines))
        write_whole(out / "research.md", "\n".join(in_markdown(done, told)) + "\n")
    except OSError as error:
        raise UserError(f"--out {out}: can't be written ({error.strerror}); name another folder") from error


def print_turn(turn: "Exchange") -> None:
    """A line about a turn, as soon as it is done."""
    print(printable(f"{turn.kind:<10} {turn_told(turn)}"), flush=True)


def turn_told(turn: "Exchange") -> str:
    if turn.said is None:
        return f"no valid reply in two attempts ({turn.fault})"
    said = turn.said.model_dump()
    words = [f"from {len(turn.found)} new passages"] if turn.found else []
    if "queries" in said:
        words.append(f"looks up: {', '.join(said['queries'])}" if said["queries"] else "looks up nothing more")
    words += [f"sections: {', '.join(said['sections'])}"] if "sections" in said else []
    return "; ".join(words)


def research_told(done: "Research", told: dict[str, Any]) -> Iterator[str]:
    yield ""
    if done.text:
        yield done.text
    else:
        yield done.answer or "The model gave no valid answer."
        yield ""
        for number in done.references:
            passage = done.passages[number - 1]
            yield f"[{number}] {passage.file}, line {passage.line}: {cut(passage.text, SHOWN)}"
    verdicts = [turn["correct"] for turn in told["turns"] if turn.get("correct") is not None]
    if verdicts:
        yield f"right by turn: {', '.join('yes' if verdict else 'no' for verdict in verdicts)}"
    read = sum(turn.tokens_read for turn in done.turns)
    written = sum(turn.tokens_written for turn in done.turns)
    failed = sum(turn.said is None for turn in done.turns)
    yield f"{read:,} tokens read, {written:,} written; {len(done.turns)} turns, {failed} of them without a valid reply"
    yield f"all turns: {told['out']}/research.md"


def in_markdown(done: "Research", told: dict[str, Any]) -> Iterator[str]:
    """The whole as a page; what the model and the texts say stands in code, where Markdown is text."""
    yield from [f"# {done.question}", "", done.text or done.answer or "No valid answer.", ""]
    for number, turn in enumerate(told["turns"], 1):
        yield f"## Turn {number}: {turn['kind']}"
        if turn.get("correct") is not None:
            yield f"\nThe answer is {'right' if turn['correct'] else 'wrong'}."
        for passage in turn["found"]:
            yield f"\n[{passage}] {fenced(done.passages[passage - 1].text)}"
        for attempt, completion in enumerate(turn["completions"], 1):
            yield f"\nReply {attempt}:\n{fenced(completion)}"
        if turn["fault"]:
            what = "It couldn't be asked" if turn["fault"] == done.stopped else "Not valid"
            yield f"\n{what}: {fenced(turn['fault'])}"
        yield ""


def fenced(text: str) -> str:
    """The text as a block of code with a fence that it can't end."""
    fence = "````"
    while fence in text:
        fence += "`"
    return f"\n{fence}text\n{text}\n{fence}"
