"""A pack, read and checked: questions, presentation, how answers become scores and a decision.

Values only. `spinf_serve.packs.loader` makes them from a file; `spinf_serve.packs.evaluate` turns
answers into scores. What was fitted on a model stands apart, in `Constants`, one for each model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spinf_serve.packs.question import Question

ReadKind = Literal["pair", "option", "any", "set"]
Mode = Literal["max", "per_category", "micro_layer"]
State = Literal["draft", "provisional", "certified"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a caller puts into a context, such as a shop's name.

    Attributes:
        default: used when the caller gives none; None and not `required` means an empty text.
    """

    name: str
    label: str | None = None
    description: str | None = None
    required: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """How the content is presented: text before and after it, parameters still as `{name}`."""

    name: str
    template: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Read:
    """How the answers to one filled template become one number.

    Attributes:
        query: id of the question.
        value: value of its placeholder `F`; None when the question has no combinations.
        kind: `pair`, `option`, `any` or `set`: see `spinf_serve.packs.reads`.
        category: the category that the number counts for.
        sign: 1 or -1, for `pair`.
        option: index of the option, for `option`.
        unsafe: indexes of the options that speak for the category, for `set`.
        view: reads of one view are averaged first when the category aggregates views.
    """

    id: str
    query: str
    value: str | None
    kind: ReadKind
    category: str
    sign: int = 1
    option: int | None = None
    unsafe: tuple[int, ...] = ()
    view: str | None = None


@dataclass(frozen=True, slots=True)
class Category:
    """What is scored: its reads' mean, mapped to a probability.

    Attributes:
        views: whether reads are averaged within each view first.
        requires: categories that must be flagged too.
        decides: whether it takes part in the decision.
    """

    id: str
    label: str | None = None
    views: bool = False
    requires: tuple[str, ...] = ()
    decides: bool = True


@dataclass(frozen=True, slots=True)
class ReadFit:
    """`z = (value - mean) / sd`. `mu` has one number for `option`, one per option for `any`, `set`."""

    mean: float
    sd: float
    mu: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Scores (`values`) at fractions (`levels`) of normal content; both non-decreasing."""

    levels: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CategoryFit:
    """`score = sigmoid(platt[0] * macro + platt[1])`; flagged at `threshold` and above.

    Attributes:
        beta: `a, b, c` of the map from a score to its `calibrated` value, see
            `spinf_serve.packs.categories.calibrated`; None without. Nothing is decided by it.
    """

    platt: tuple[float, float]
    threshold: float | None = None
    quantiles: Quantiles | None = None
    beta: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class MicroLayer:
    """A small network over macros (`c:<category>`) and z values (`r:<read>`).

    Attributes:
        weights: float32 values in the order of `spinf_serve.packs.layer`, threshold last.
        hidden: hidden units; 0 for a linear layer.
        lock: digest of what the weights were fitted on, as the file has it.
        holds: whether that digest is the one of the file's questions, reads and maps.
    """

    inputs: tuple[str, ...]
    weights: tuple[float, ...]
    hidden: int
    lock: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Cuts:
    """`act` at and above the first, `review` at and above the second, `pass` below."""

    act: float
    review: float


@dataclass(frozen=True, slots=True)
class Bands:
    """Cuts for the decision's score and for single categories."""

    decision: Cuts | None = None
    categories: Mapping[str, Cuts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Constants:
    """Everything that was fitted on one model.

    Attributes:
        model: id or alias of the model.
        max_threshold: cut of the mode `max`; None when the pack has no such mode.
        layer: the micro layer, if the pack has one for this model.
        bands: the pack's bands, or those fitted on this model.
        proof: what stands behind the thresholds, as evals wrote it; None without.
    """

    model: str
    reads: Mapping[str, ReadFit]
    categories: Mapping[str, CategoryFit]
    max_threshold: float | None = None
    layer: MicroLayer | None = None
    bands: Bands | None = None
    proof: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """How scores become a decision, apart from the numbers.

    Attributes:
        fallback: mode that decides when the micro layer's lock does not hold.
        critical: categories that force the verdict when flagged.
    """

    mode: Mode = "per_category"
    fallback: Literal["max", "per_category"] = "per_category"
    critical: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """Which category a content goes to: the highest, unless it leads by too little.

    Attributes:
        categories: those that compete.
        margin: least lead over the second, in score.
        minimum: least score of the first.
        abstain: the answer when either is missed.
    """

    categories: tuple[str, ...]
    margin: float = 0.0
    minimum: float = 0.0
    abstain: str = "unsure"


@dataclass(frozen=True, slots=True)
class Pack:
    """One version of a pack.

    Attributes:
        id: `namespace/name`.
        name, description, tags, license: for people; empty when the file has none.
        media: kinds of content it reads.
        answers: `p` takes p as the API rounds it, `logprob` takes it unrounded.
        contexts: name -> context, the default first.
        questions: its questions; `group` is `<id>@<version>`.
        case_insensitive: whether other spellings of an option count for it, in all its questions.
        fitted: model -> constants, empty for a draft.
        on_long: what happens to a content longer than the model takes: `refuse` it, or cut it in
            chunks and take the `max` or `mean` of their z values.
        body: the plain JSON form, with short forms written out, without `fitted`.
        digest: sha256 of the file's bytes, 64 hex digits.
    """

    id: str
    version: str
    name: str
    description: str
    tags: tuple[str, ...]
    license: str
    media: tuple[str, ...]
    answers: Literal["p", "logprob"]
    parameters: Mapping[str, Parameter]
    contexts: Mapping[str, Context]
    questions: tuple[Question, ...]
    empty_floor: bool
    case_insensitive: bool
    reads: tuple[Read, ...]
    categories: Mapping[str, Category]
    decision: Decision
    modes: tuple[Mode, ...]
    route: Route | None
    on_long: Literal["refuse", "max", "mean"]
    fitted: Mapping[str, Constants]
    body: Mapping[str, Any]
    digest: str

    @property
    def group(self) -> str:
        """The group of its questions; reserved in a call that uses the pack."""
        return f"{self.id}@{self.version}"

    def constants(self, names: tuple[str, ...]) -> Constants | None:
        """What was fitted on a model of any of these names; None when the pack is a draft there."""
        wanted = {name.casefold() for name in names}
        for model, constants in self.fitted.items():
            if model.casefold() in wanted:
                return constants
        return None
