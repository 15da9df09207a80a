"""Talks to a model in the terminal, the reasoning shown apart from the reply.

    you> What is 8 + 16 - 19?
        we start with 8 + 16 = 24. then 24 - 19 = 5.
    the result is 5

Left out: a conversation. The models were trained on single questions, so every question is asked alone.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from r1flow.api.examination import load_chat_sampler, prompt_in_template
from r1flow.artifacts.folders import model_folder
from r1flow.commands.finding import add_sampling, parts_of, tell
from r1flow.core.errors import UserError, printable
from r1flow.sampling import SamplingParams, seed_of, with_opened_thought

DIM, PLAIN = "\033[2m", "\033[0m"

# Question, its number -> completion, whether it ended by itself.
Ask = Callable[[str, int], tuple[str, bool]]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Talk to a model. Each line you type is a new conversation, because these models were trained on "
        "single questions. End with Ctrl-D. Questions may also come from standard input, one per line."
    )
    parser.set_defaults(writes_codes=True)
    parser.add_argument("model", type=Path, metavar="MODEL_DIR", help="for example results/r1_tiny/align_rl/model")
    parser.add_argument("--prompt", help="ask this one question, print the reply and exit")
    add_sampling(parser)
    parser.add_argument("--max-new-tokens", type=int, default=192, help="longest reply, in tokens (default: 192)")
    parser.add_argument("--json", action="store_true", help="print each reply as a line of JSON (docs/commands.md)")


def run(arguments: argparse.Namespace) -> None:
    """Answer the one prompt, or else every line of standard input until it ends; raises UserError."""
    model = model_folder(arguments.model)
    ask = asker(model, arguments)
    if arguments.prompt is not None:
        print_reply(arguments.prompt, *ask(arguments.prompt, 0), arguments.json)
        return
    for number, question in enumerate(typed_questions(model)):
        try:
            print_reply(question, *ask(question, number), arguments.json)
        except UserError as error:  # this question is too long; the next one may not be
            print(f"r1flow: {error}", file=sys.stderr)


def asker(model: Path, arguments: argparse.Namespace) -> Ask:
    """Load the model (takes seconds); returns a function that asks it a question, in the template of its training."""
    params = SamplingParams(arguments.temperature, arguments.top_p, arguments.max_new_tokens)
    sampler = load_chat_sampler(model, arguments.engine, batch_size=1)

    def ask(question: str, number: int) -> tuple[str, bool]:
        prompt = prompt_in_template(model, sampler, question)
        [completion] = sampler.sample([prompt], params, [seed_of(arguments.seed, question, number)])
        return with_opened_thought(prompt, completion).text, completion.finished

    return ask


def typed_questions(model: Path) -> Iterator[str]:
    """The lines of standard input that aren't empty; on a terminal, with a prompt."""
    person = sys.stdin.isatty()
    if person:
        import readline  # noqa: F401  (line editing and history for input)

        print(f"{model}: ask one question per line; the model sees no earlier ones. Ctrl-D ends")
    while True:
        try:
            line = input("you> " if person else "").strip()
        except EOFError:
            if person:
                print()
            return
        if line:
            yield line


def print_reply(question: str, completion: str, finished: bool, as_json: bool) -> None:
    """Print one reply; in JSON as the model wrote it, control codes escaped."""
    reasoning, reply = parts_of(completion)
    finding = {"question": question, "reasoning": reasoning, "reply": reply, "finished": finished}
    tell(finding, present_reply(completion, finished, dim=sys.stdout.isatty()), as_json, indent=None)


def present_reply(completion: str, finished: bool, dim: bool) -> str:
    """A completion for a reader: the reasoning indented (and dim on a terminal), then the reply."""
    reasoning, reply = parts_of(printable(completion))
    lines = [f"    {line}" for line in (reasoning or "").strip().splitlines()]
    if lines and dim:
        lines = [f"{DIM}{line}{PLAIN}" for line in lines]
    if reply:
        lines.append(reply)
    if not finished:
        lines.append("[truncated; --max-new-tokens allows more]")
    return "\n".join(lines) or "[no reply]"
