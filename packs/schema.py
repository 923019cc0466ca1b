"""The pack's file, field by field: the plain form (JSON) and the author's form (YAML).

The one definition of every field: loading, the JSON Schema that editors use and the tables in
docs/packs.md are made from it. Knows types only; what fields mean together is checked in
`spinf_serve.packs.build`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from spinf_serve.packs.schema_types import (
    Default,
    Flag,
    Free,
    FreeMapping,
    Maybe,
    Number,
    Text,
    Whole,
    Word,
    as_text,
    member,
    number_member,
)

_Mapping = Tag("#mapping")
_List = Tag("#list")
_Text = Tag("#text")
_Choice = BeforeValidator(as_text)


class Part(BaseModel):
    """A mapping of the file; fields that it does not have are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Parameter(Part):
    """A value that a caller puts into a context, such as a shop's name."""

    label: Maybe[Text] = Field(None, description="Name for people.")
    description: Maybe[Text] = Field(None, description="What to give, for people.")
    required: Flag = Field(
        True, description="Whether a caller must give it when it has no default."
    )
    default: Maybe[Default] = Field(None, description="Used when the caller gives none.")


class QueryFields(Part):
    """What a question has in both forms."""

    id: Text = Field(description="Its name, unique in the pack, up to 128 characters.")
    template: Text = Field(
        description="What the model reads behind the content. Ends in `{?}`, where one of the "
        "options is to be read; `{F}` is a placeholder. A line break behind `{?}` is dropped."
    )
    combinations: Maybe[
        Annotated[
            Annotated[list[dict[str, Word]], _List] | Annotated[Literal["all"], _Choice, _Text],
            Discriminator(member),
        ]
    ] = Field(
        None,
        description="The placeholders' values, one mapping for each filled template; or `all`, "
        "which makes every combination of `values`.",
    )
    values: Maybe[dict[str, list[Word]]] = Field(
        None, description="The values of each placeholder, with `combinations: all`."
    )
    empty_floor: Maybe[Flag] = Field(
        None, description="Whether the question is also read on no content; else the pack's rule."
    )


class Query(QueryFields):
    """A question in the plain form."""

    options: list[Word] = Field(
        description="What may stand in the slot, at least two, leading spaces included."
    )


class AuthorQuery(QueryFields):
    """A question."""

    options: Annotated[
        Annotated[list[Word], _List] | Annotated[Literal["true/false", "yes/no"], _Choice, _Text],
        Discriminator(member),
    ] = Field(
        description="What may stand in the slot, at least two; or `true/false` or `yes/no`. Each "
        "gets a leading space unless it begins with one, or the template ends in white space, an "
        "opening quote or an opening bracket."
    )
    exact_options: Flag = Field(
        False, description="true leaves the options as they are written, without leading spaces."
    )
    for_: dict[str, list[Word]] | None = Field(
        None,
        alias="for",
        description="The values of each placeholder; every combination is asked.",
    )
    category: Maybe[
        Annotated[
            Annotated[Text, _Text] | Annotated[dict[str, Text], _Mapping],
            Discriminator(member),
        ]
    ] = Field(
        None,
        description="The category that the first of two options speaks for (with `unsafe`: the "
        "options listed there); for a question with values of `F`, one category for all or a "
        "mapping from value to category.",
    )
    categories: dict[str, Text] | None = Field(
        None,
        description="For several options: a mapping from option to the category it speaks for.",
    )
    sign: Maybe[Whole] = Field(
        None, description="-1 makes the second of two options speak for the category."
    )
    unsafe: list[Word] | None = Field(
        None, description="With `category` and three or more options: those that speak for it."
    )
    view: Maybe[Text] = Field(
        None, description="The view of the question's reads, for categories that average by views."
    )
    negates: Text | None = Field(
        None, description="Id of the question whose statement this one denies; for lint only."
    )


class ScoringFields(Part):
    """What both forms say about the questions together."""

    empty_floor: Flag = Field(
        True, description="Whether questions are also read on no content (`floor_p`)."
    )
    case_insensitive: Maybe[Flag] = Field(
        None,
        description="Whether other spellings of an option count for it. Left out, it is false in "
        "JSON and true in YAML, there false when two options of one question differ by case only.",
    )


class Scoring(ScoringFields):
    """The questions in the plain form."""

    queries: list[Query] = Field(description="The questions, in order.")


class AuthorScoring(ScoringFields):
    """The questions."""

    queries: list[AuthorQuery] = Field(description="The questions, in order.")


_Mu = Annotated[
    Annotated[list[Number], _List] | Annotated[Number, Tag("#number")],
    Discriminator(number_member),
]


class Read(Part):
    """How the answers to one filled template become one number."""

    id: Text = Field(description="Its name, unique among the reads.")
    query: Text = Field(description="Id of the question.")
    F: Maybe[Word] = Field(
        None, description="Value of the question's placeholder `F`, if it has combinations."
    )
    kind: Annotated[Literal["pair", "option", "any", "set"], _Choice] = Field(
        description="`pair` the first of two options against the second; `option` one option; "
        "`any` all options against the first; `set` the options of `unsafe` against the others."
    )
    category: Text = Field(description="The category that it counts for.")
    sign: Maybe[Whole] = Field(None, description="For `pair`: 1, or -1 to turn it around.")
    option: Maybe[Whole] = Field(None, description="For `option`: the option's index from 0.")
    unsafe: Maybe[list[Whole]] = Field(
        None, description="For `set`: the indexes from 0 of the options that speak for it."
    )
    view: Maybe[Text] = Field(
        None, description="Reads of a view are averaged first where the category says so."
    )
    mean: Maybe[Number] = Field(None, description="Fitted: mean of the value on normal content.")
    sd: Maybe[Number] = Field(None, description="Fitted: its standard deviation, above 0.")
    mu: Maybe[_Mu] = Field(
        None,
        description="Fitted: the options' usual log-probability; a number for `option`, a list "
        "with one for each option for `any` and `set`.",
    )


class Quantiles(Part):
    """Where normal content's scores lie."""

    levels: list[Number] = Field(description="Fractions, non-decreasing, at least two.")
    values: list[Number] = Field(description="The score at each fraction, non-decreasing.")


_BETA = (
    "Fitted: `[a, b, c]` of calibrated = sigmoid(a · ln score - b · ln(1 - score) + c), shown "
    "beside the score; a and b are 0 or more. Nothing is decided by it."
)


class Category(Part):
    """What is scored."""

    label: Maybe[Text] = Field(None, description="Name for people.")
    aggregate: Maybe[Annotated[Literal["views"], _Choice]] = Field(
        None, description="`views`: average the reads within each view first."
    )
    requires: Maybe[list[Text]] = Field(
        None, description="Categories that must be flagged for this one to stay flagged."
    )
    decides: Flag = Field(True, description="Whether it takes part in the decision.")
    platt: Maybe[list[Number]] = Field(
        None, description="Fitted: `[a, b]` of score = sigmoid(a · mean of z + b)."
    )
    beta: Maybe[list[Number]] = Field(None, description=_BETA)
    threshold: Maybe[Number] = Field(
        None, description="Flagged at this score and above, 0 to 1; null only reports the score."
    )
    normal_quantiles: Maybe[Quantiles] = Field(
        None, description="Fitted: scores of normal content, for percentiles."
    )


class Max(Part):
    """The mode `max`: the highest deciding score counts."""

    threshold: Maybe[Number] = Field(None, description="Unsafe at this score and above, 0 to 1.")


class MicroLayer(Part):
    """The mode `micro_layer`: a small network over the categories' means and the reads' z."""

    inputs: Maybe[list[Text]] = Field(
        None, description="`c:<category>` and `r:<read>`, in the order of the weights."
    )
    weights: Maybe[Text] = Field(
        None, description="Fitted: little-endian float32 numbers in base64, threshold last."
    )
    dtype: Annotated[Literal["float32"], _Choice] = Field(
        "float32", description="Number format of the weights."
    )
    hidden: Whole = Field(0, description="Number of hidden units; 0 for a linear layer.")
    lock: Maybe[Text] = Field(
        None, description="Fitted: `sha256:` and 64 hex digits over what the weights rely on."
    )


class Decision(Part):
    """How scores become a decision."""

    mode: Annotated[Literal["max", "per_category", "micro_layer"], _Choice] = Field(
        description="What decides unless a call says otherwise."
    )
    fallback: Annotated[Literal["max", "per_category"], _Choice] = Field(
        "per_category", description="What decides when the micro layer's lock does not hold."
    )
    max: Max | None = Field(None, description="The mode `max` exists; `{}` until it is fitted.")
    per_category: Free = Field(None, description="Accepted; the mode always exists.")
    micro_layer: MicroLayer | None = Field(
        None, description="The mode `micro_layer` exists; `{}` or `inputs` until it is fitted."
    )
    critical: Maybe[list[Text]] = Field(
        None, description="Categories that decide alone when flagged, in every mode."
    )


class Cuts(Part):
    """Bounds of the bands: `act` from the first, `review` from the second, else `pass`."""

    act: Number = Field(description="Least score for `act`.")
    review: Number = Field(description="Least score for `review`; not above `act`.")


class Bands(Part):
    """What to do by score: act, review or pass."""

    decision: Maybe[Cuts] = Field(None, description="Bounds for the decision's score.")
    categories: Maybe[dict[str, Cuts]] = Field(None, description="Bounds by category.")


class Route(Part):
    """Which category a content goes to: the highest, unless it leads by too little."""

    categories: list[Text] = Field(description="The categories that compete, at least two.")
    margin: Number = Field(0, description="Least lead over the second, 0 to 1.")
    minimum: Number = Field(0, description="Least score of the first, 0 to 1.")
    abstain: Text = Field("unsure", description="The answer when either is missed.")


class Chunks(Part):
    """A content longer than the model takes is read in chunks."""

    chunk: Annotated[Literal["max", "mean"], _Choice] = Field(
        description="What is taken of the chunks' z values."
    )


class FittedRead(Part):
    """What was fitted of a read."""

    mean: Number = Field(description="Mean of the value on normal content.")
    sd: Number = Field(description="Its standard deviation, above 0.")
    mu: Maybe[_Mu] = Field(
        None, description="A number for `option`, a list for `any` and `set`, none for `pair`."
    )


class FittedCategory(Part):
    """What was fitted of a category."""

    platt: list[Number] = Field(description="`[a, b]` of score = sigmoid(a · mean of z + b).")
    beta: Maybe[list[Number]] = Field(None, description=_BETA)
    threshold: Maybe[Number] = Field(
        None,
        description="Flagged at this score and above; left out, the category's own is taken, and "
        "without one the score is only reported.",
    )
    normal_quantiles: Maybe[Quantiles] = Field(None, description="Scores of normal content.")


class FittedDecision(Part):
    """What was fitted of the decision."""

    max: Max | None = Field(None, description="The threshold of the mode `max`.")
    micro_layer: MicroLayer | None = Field(None, description="The micro layer.")


class Fitted(Part):
    """What was fitted on one model."""

    reads: dict[str, FittedRead] = Field(description="By read; every read of the pack.")
    categories: dict[str, FittedCategory] = Field(description="By category; every category.")
    decision: Maybe[FittedDecision] = Field(None, description="Of the modes that the pack has.")
    bands: Maybe[Bands] = Field(None, description="Bands on this model; else the pack's.")
    proof: Maybe[FreeMapping] = Field(
        None, description="What stands behind the thresholds; written by evals."
    )


class Waiver(Part):
    """A finding of lint that is accepted."""

    rule: Text = Field(description="The rule's name.")
    on: Text = Field(description="Id of the question, or `*`.")
    reason: Text = Field(description="Why it is right here.")


class Lint(Part):
    """Instructions for lint."""

    waive: list[Waiver] = Field(description="Findings that are accepted.")


class PackFields(Part):
    """What a pack has in both forms."""

    pack: Text = Field(
        description="Id `namespace/name`; each part has lower-case letters, digits, `.`, `_` and "
        "`-`, a letter or digit first."
    )
    version: Word = Field(description="Letters, digits, `.`, `+` and `-`, a letter or digit first.")
    name: Maybe[Text] = Field(None, description="Name for people.")
    description: Maybe[Text] = Field(None, description="A sentence or two for people.")
    tags: Maybe[list[Word]] = Field(None, description="For people.")
    license: Maybe[Text] = Field(None, description="For people.")
    model: Maybe[Text] = Field(
        None,
        description="Model that the numbers in `reads`, `categories` and `decision` were fitted "
        "on; a draft, or a pack with `fitted`, needs none.",
    )
    media: list[Annotated[Literal["text", "image", "audio", "video"], _Choice]] = Field(
        ["text"], description="Kinds of content that the pack reads; `text` is one of them."
    )
    answers: Annotated[Literal["p", "logprob"], _Choice] = Field(
        "p", description="`p` takes probabilities rounded to 6 decimals, `logprob` unrounded ones."
    )
    parameters: dict[str, Parameter] = Field(
        {}, description="Values that a context needs, by name."
    )
    contexts: dict[str, Text] = Field(
        description="How the content is presented, by name, the default first: a text with `{X}` "
        "where the content goes, and `{name}` for parameters."
    )
    bands: Maybe[Bands] = Field(None, description="Act, review or pass, by score.")
    route: Maybe[Route] = Field(None, description="Which category a content goes to.")
    on_long: Annotated[
        Annotated[Literal["refuse"], _Choice, _Text] | Annotated[Chunks, _Mapping],
        Discriminator(member),
    ] = Field(
        "refuse",
        description="A content longer than the model takes is refused, or read in chunks whose z "
        "values are combined: `{chunk: max}` or `{chunk: mean}`.",
    )
    fitted: dict[str, Fitted] = Field({}, description="What was fitted, by model.")
    proof: Maybe[FreeMapping] = Field(
        None, description="What stands behind the thresholds fitted on `model`."
    )


class PlainPack(PackFields):
    """A pack in the plain form."""

    scoring: Scoring = Field(description="The questions and their common rules.")
    reads: list[Read] = Field(description="How answers become numbers.")
    categories: dict[str, Category] = Field(description="What is scored, by id.")
    decision: Decision = Field(description="How scores become a decision.")


class AuthorPack(PackFields):
    """A pack."""

    scoring: AuthorScoring = Field(description="The questions and their common rules.")
    reads: Maybe[list[Read]] = Field(
        None, description="Reads besides those made from `category` and `categories`."
    )
    categories: Maybe[dict[str, Maybe[Category]]] = Field(
        None,
        description="What is scored, by id; left out, made from the names that the questions use, "
        "in order of first use.",
    )
    decision: Maybe[Decision] = Field(
        None, description="How scores become a decision; left out, `mode: per_category`."
    )
    lint: Lint | None = Field(None, description="Instructions for lint; not exported.")


def json_schema() -> dict[str, Any]:
    """JSON Schema of the author's form, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidy(AuthorPack.model_json_schema(by_alias=True)),
    }


def _tidy(part: Any) -> Any:
    """A schema without what pydantic adds of itself: titles, and null as the default."""
    if isinstance(part, list):
        return [_tidy(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: _tidy(value)
        for key, value in part.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and value is None)
    }
