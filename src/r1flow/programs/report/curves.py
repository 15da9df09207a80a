"""The report's curves of training by RL: which values of the steps are drawn, with what beside them, and how."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from r1flow.programs.report.figures import COLOURS, INK, STYLE, canvas, to_svg
from r1flow.programs.report.templates import slug

Curve = Sequence[tuple[float, float]]  # (step, value)
Curves = Mapping[str, Sequence[Curve]]  # stage -> its curve in each of the runs that are drawn


class CurveFigure(NamedTuple):
    """How a value is drawn. `times` is 100 for fractions, drawn in per cent; `window`, of a moving mean, in values."""

    y_label: str
    caption: str = ""
    times: int = 1
    window: int = 5

    @property
    def aria_label(self) -> str:
        return f"{self.y_label}, by training step"


# By the value's key in `history` of metrics.json: what a training is for, and what shows whether it goes wrong.
AIMS = {
    "accuracy": CurveFigure(
        "accuracy of the sampled answers, %",
        "As the paper’s Fig. 2, but on training prompts, at training temperature: compare where each curve starts and"
        " how fast it climbs.",
        times=100,
    ),
    "dev/accuracy": CurveFigure(
        "dev problems solved, %",
        "The same problems at every measurement, answered greedily, which no training saw: here only the model changes."
        " In its first half, but for a leap at the start: the nearer to a straight line, the steadier the training.",
        times=100,
        window=1,
    ),
    "length": CurveFigure(
        "mean response length, tokens",
        "As the paper’s Fig. 3: does zero RL lengthen its own responses? In the default experiment’s texts the"
        " longest thoughts write every step down, and compute it again.",
    ),
    "thinking": CurveFigure(
        "rollouts that think, %",
        "The share of the sampled responses to reasoning problems that begin with a thought. Where accuracy climbs"
        " together with this curve, the model learns to think more often; where it climbs alone, something else.",
        times=100,
    ),
}
HEALTH = {
    "reward": CurveFigure("mean reward", "What a training by RL raises: the sum of its parts by their weights."),
    "format": CurveFigure(
        "reward for the form",
        "1 for one thought followed by one answer. Where it climbs alone, only the tags are learnt.",
    ),
    "language": CurveFigure(
        "reward for the language",
        "The share of a thought’s words, or without one of the response’s, in the language asked for.",
    ),
    "helpful": CurveFigure(
        "score for helpfulness",
        "General prompts only, and the summary only. Where it climbs and the score on general test prompts doesn’t, the"
        " model is learning to please what scores it.",
    ),
    "harmless": CurveFigure("score for harmlessness", "General prompts only, and the whole response."),
    "entropy": CurveFigure(
        "entropy, nats a token",
        "How undecided the model is about its next token. Near zero nothing new is tried any more; if it keeps"
        " climbing, what the model writes falls apart.",
    ),
    "kl": CurveFigure("KL divergence, nats a token", "How far the model has gone from its reference model."),
    "zero_variance": CurveFigure(
        "groups that teach nothing, %",
        "All responses to the prompt have the same reward, so none has an advantage: it is too hard, or too easy.",
        times=100,
    ),
    "truncated": CurveFigure(
        "truncated rollouts, %",
        "Responses that were cut off at the largest length. Where there are many, the mean length says little.",
        times=100,
    ),
    "clipped": CurveFigure(
        "clipped tokens, %",
        "Tokens whose probability has changed so much since they were sampled that nothing is learnt from them (where a"
        " whole response is weighted at once, responses). There are none where each set of rollouts gives one update.",
        times=100,
    ),
    "mismatch": CurveFigure(
        "mismatch, nats a token",
        "The sampler and the trainer compute a token’s probability by different code: this is the mean of |log p of the"
        " trainer − log p of the sampler|. Above 0.1 the trainer would learn from samples of what is in effect another"
        " model.",
    ),
}
REWARDS = "rewards/"  # how the keys of an experiment's own rewards begin


def curve_figure(key: str) -> CurveFigure:
    """How the value of this key is drawn; any other is a reward of the experiment's own."""
    own = key.removeprefix(REWARDS)
    return (AIMS | HEALTH).get(key) or CurveFigure(f"reward {own}", f"The reward {own}, before its weight.")


def smoothed(values: Sequence[float], window: int) -> np.ndarray:
    """Centred moving mean over `window` values, fewer at the ends."""
    half = window // 2
    return np.array([np.mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))])


@plt.rc_context(STYLE)
def draw_curves(curves: Curves, key: str) -> str:
    """One line per training, a moving mean: of a single run, what training is for with the values as points, too; of
    several runs, with the same steps, as their mean and a band from the smallest to the largest."""
    drawn = curve_figure(key)
    figure, axes = canvas(3.1)
    smallest = 0.0
    for stage, runs in curves.items():
        points = np.array(runs, dtype=float)  # runs × steps × (step, value)
        steps, values_RS = points[0, :, 0], drawn.times * points[:, :, 1]
        lines_RS = np.array([smoothed(values, drawn.window) for values in values_RS])
        colour = COLOURS.get(stage, INK)
        if len(runs) == 1 and key in AIMS:  # points are two thirds of a picture's bytes
            axes.plot(steps, values_RS[0], ".", color=colour, alpha=0.28, markersize=4, markeredgewidth=0)
        if len(runs) > 1:
            axes.fill_between(steps, lines_RS.min(0), lines_RS.max(0), color=colour, alpha=0.16, linewidth=0)
        axes.plot(steps, lines_RS.mean(0), color=colour, linewidth=2, label=stage)
        smallest = min(smallest, values_RS.min())
    axes.set_xlabel("training step")
    axes.set_ylabel(drawn.y_label)
    if smallest >= 0:
        axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=min(4, len(curves)), handlelength=1, columnspacing=1.2)
    return to_svg(figure, slug(key), drawn.aria_label)
