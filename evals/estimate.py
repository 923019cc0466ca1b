"""What decisions cost: tokens as they are read, beside one call per question.

Arithmetic over counted tokens. Knows no tokenizer and no engine.
"""

from dataclasses import dataclass

PER = 1000
"""Decisions that a cost is told for."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of some rows, summed.

    Attributes:
        rows: contents that were counted.
        calls: filled questions over all contents: calls of one question each.
        content_tokens: of the contents with the pack's context around them.
        tree_tokens: rows of passes when a content is read once and its questions share what they
            begin with.
        apart_tokens: of one call per question: start, content, question and what its options have
            beyond their first token.
    """

    rows: int
    calls: int
    content_tokens: int
    tree_tokens: int
    apart_tokens: int

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(
            self.rows + other.rows,
            self.calls + other.calls,
            self.content_tokens + other.content_tokens,
            self.tree_tokens + other.tree_tokens,
            self.apart_tokens + other.apart_tokens,
        )


@dataclass(frozen=True, slots=True)
class Cost:
    """What `PER` decisions take.

    Attributes:
        tokens: read by the model.
        seconds: at the rate.
        money: in the currency of the price.
    """

    tokens: float
    seconds: float
    money: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of the tree, and of one call per question, per `PER` decisions.

    Attributes:
        times: how many times as many tokens the calls read.
    """

    tree: Cost
    apart: Cost
    times: float


def estimate(counted: Counted, rate: float, hour_price: float) -> Estimate:
    """The cost of decisions like those that were counted.

    One call per question is taken to read its tokens at the same rate, which favours it: a call has
    its own overhead, and a server in between.

    Args:
        rate: tokens a second that the model reads.
        hour_price: price of an hour of the machine.

    Raises ValueError without a row, or when rate or price are out of range.
    """
    if counted.rows < 1 or not rate > 0 or not hour_price >= 0:
        raise ValueError(f"{counted.rows} rows, {rate} tokens/s, {hour_price} an hour")

    def cost(tokens: int) -> Cost:
        each = tokens / counted.rows * PER
        seconds = each / rate
        return Cost(each, seconds, seconds / 3600 * hour_price)

    tree, apart = cost(counted.tree_tokens), cost(counted.apart_tokens)
    return Estimate(tree, apart, counted.apart_tokens / counted.tree_tokens)
