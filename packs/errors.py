"""What can go wrong, and the one table of error codes that every wire format is made from.

Does not know HTTP bodies: `spinf_serve.server.problems` turns these into an envelope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One error code: the HTTP status it answers with, and its meaning in a line for the docs."""

    name: str
    status: int
    meaning: str


_ROWS: tuple[tuple[str, int, str], ...] = (
    ("invalid_json", 400, "the body is not JSON"),
    ("invalid_encoding", 400, "the body is not of the encoding that its header names"),
    ("invalid_field", 400, "a field has the wrong type or an impossible value"),
    ("scoring_required", 400, "the chat route needs `scoring` where no text is written"),
    ("no_chat_template", 400, "the served model cannot be asked in turns of a chat"),
    ("model_not_served", 400, "`model` names a model that this server does not serve"),
    ("invalid_template", 400, "a template breaks the grammar of placeholders and slots"),
    ("missing_value", 400, "a value that the template or question needs is not given"),
    ("unknown_placeholder", 400, "a combination names a placeholder that the template lacks"),
    ("too_many_combinations", 400, "a grid expands to more filled templates than allowed"),
    ("too_many_options", 400, "a question has no option or more than allowed"),
    ("duplicate_option", 400, "two options of a question are the same"),
    ("option_too_long", 400, "an option has more tokens than allowed"),
    ("duplicate_id", 400, "an id occurs twice where it must be unique"),
    ("unknown_query_id", 400, "`query_ids` names a question that `scoring.queries` lacks"),
    ("empty_queries", 400, "an input has no question"),
    ("template_too_long", 400, "a filled template has more tokens than allowed"),
    ("content_too_long", 400, "a content has more tokens than allowed"),
    ("too_many_prompts", 400, "an input has more filled templates than allowed"),
    ("too_many_extractions", 400, "an input has more extraction slots than allowed"),
    ("unsupported_content", 400, "a content part has an unknown type or no payload"),
    ("invalid_media", 400, "a medium cannot be read or is over a limit"),
    ("media_not_supported", 400, "the served model does not read this kind of medium"),
    ("media_disabled", 400, "this kind of medium is switched off on this server"),
    ("extraction_disabled", 400, "extraction is not available on this server"),
    ("generation_disabled", 400, "generation is not available on this server"),
    ("unknown_pack", 400, "no pack of that id is served"),
    ("unknown_pack_version", 400, "the pack has no such version"),
    ("pack_not_available", 400, "the pack is announced but not served yet"),
    ("pack_media_not_supported", 400, "the pack does not read this kind of content"),
    ("pack_of_other_model", 400, "the pack was proven on another model, and the server is strict"),
    ("pack_conflict", 400, "two packs, or a pack and the call, contradict each other"),
    ("unknown_category", 400, "the pack has no such category"),
    ("reserved_group", 400, "a question's group is reserved for a pack of the call"),
    ("batches_disabled", 400, "this server keeps no batch files"),
    ("unknown_file", 400, "no file of that id is kept for this caller"),
    ("file_in_use", 400, "a batch that has not ended reads the file"),
    ("batch_ended", 400, "the batch has ended, so it cannot be cancelled"),
    ("invalid_token", 401, "the bearer token is missing or wrong"),
    ("unknown_batch", 404, "no batch of that id is kept for this caller"),
    ("body_too_large", 413, "the request body has more bytes than allowed"),
    ("request_too_large", 413, "the request needs more tokens or memory than allowed"),
    ("unsupported_encoding", 415, "the body's Content-Encoding is none that is read"),
    ("storage_full", 413, "the folder of batch files has no room for the file"),
    ("concurrency_limit", 429, "too many requests are waiting"),
    ("engine_error", 500, "the engine failed on this request"),
    ("warming_up", 503, "the model is still loading"),
    ("storage_unavailable", 503, "the folder of batch files cannot be read or written now"),
    ("deadline_exceeded", 504, "there was no answer by the time that the request allows"),
    ("model_unavailable", 503, "the model could not be loaded, or the server drains or ends"),
)

CODES: dict[str, ErrorCode] = {row[0]: ErrorCode(*row) for row in _ROWS}


class SpinfError(Exception):
    """Base of everything raised on purpose. `code` is a key of `CODES`.

    `param` is the dotted path of the field at fault, relative to whatever the raiser was given
    (an engine says `questions.3.options.1`; the server turns that into the request's path).
    """

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        if code not in CODES:
            raise AssertionError(f"{code} is not in the table of error codes")
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param

    @property
    def status(self) -> int:
        """HTTP status of the code."""
        return CODES[self.code].status


class Refused(SpinfError):
    """The caller asked for something that cannot be done; asking again the same way cannot help."""

    def within(self, path: str) -> "Refused":
        """The same refusal seen from outside: `path` put before its param."""
        return Refused(self.code, self.message, f"{path}.{self.param}" if self.param else path)


class Busy(SpinfError):
    """Overload or not ready: the same call may work after `retry_after_seconds`."""

    def __init__(self, code: str, message: str, retry_after_seconds: int) -> None:
        super().__init__(code, message)
        self.retry_after_seconds = retry_after_seconds


class Fault(SpinfError):
    """Something that is not the caller's doing, for instance NaN from the model."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__("engine_error", message, param)


class Unusable(Exception):
    """A set-up problem that a person must mend: shown as one line, without a traceback."""


_KINDS: tuple[tuple[type, str], ...] = (
    (str, "a text"),
    # In Python a bool is an int.
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (Mapping, "an object"),
    (Sequence, "a list"),
    (type(None), "null"),
)


def kind_of(value: object) -> str:
    """What a value of JSON, YAML or TOML is, in the words of a message: `a whole number`, `null`."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "no plain value")
