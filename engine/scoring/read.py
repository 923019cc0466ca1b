"""Read columns back to option log-probabilities, probabilities and residuals, in float64.

Every value is computed from its own prompt's columns alone and in an order that the prompt fixes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinf_serve.engine.scoring.compile import Forest

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of a forest's prompts on one content: O options in order, Q prompts in order.

    Attributes:
        logprob: [O] natural log of each option's probability.
        p: [O] softmax of a prompt's logprobs over its options.
        residual: [Q] max(0, 1 - sum of exp(logprob)).
    """

    logprob: FloatArray
    p: FloatArray
    residual: FloatArray


def read_scores(forest: Forest, columns: NDArray[np.float32]) -> Scores:
    """Scores from the [C] column log-probabilities of a forest's tree.

    logprob(option) = logsumexp over spellings of the sum of the spelling's steps (chain rule);
    p = softmax over the prompt's options.
    """
    steps = columns.astype(np.float64)[forest.step_columns]
    spellings = np.add.reduceat(steps, forest.spelling_start[:-1])
    logprob = _logsumexp(spellings, forest.option_start)
    return scores_of(logprob, forest.prompt_start)


def scores_of(logprob: FloatArray, prompt_start: NDArray[np.int32]) -> Scores:
    """`p` and `residual` of option logprobs [O], prompt i holding options start[i] .. start[i+1]."""
    top = np.maximum.reduceat(logprob, prompt_start[:-1])
    sizes = np.diff(prompt_start)
    relative = np.exp(logprob - np.repeat(top, sizes))
    total = np.add.reduceat(relative, prompt_start[:-1])
    mass = np.add.reduceat(np.exp(logprob), prompt_start[:-1])
    return Scores(
        logprob=logprob,
        p=relative / np.repeat(total, sizes),
        residual=np.maximum(0.0, 1.0 - mass),
    )


def _logsumexp(values: FloatArray, start: NDArray[np.int32]) -> FloatArray:
    top = np.maximum.reduceat(values, start[:-1])
    shifted = np.exp(values - np.repeat(top, np.diff(start)))
    total: FloatArray = top + np.log(np.add.reduceat(shifted, start[:-1]))
    return total
