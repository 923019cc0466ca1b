"""How a served model presents itself: names, kinds of input, and whether it is a stand-in."""

from collections.abc import Mapping
from dataclasses import dataclass

from spinf_serve.engine.work import Frame, PromptStyle


@dataclass(frozen=True, slots=True)
class ChatForm:
    """How the turns of a chat are written for a model, as its files say.

    Attributes:
        template: in Jinja; it makes a text of messages.
        controls: text -> id of the control tokens that the template may write.
        bos, eos: texts of the tokens that the template knows by these names; empty for none.
    """

    template: str
    controls: Mapping[str, int]
    bos: str = ""
    eos: str = ""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Names and description of the model an engine serves.

    Attributes:
        id: what `model` fields and logs call it.
        name, description, release_date: for `/v1/models`; name is accepted like the id.
        aliases: further names it answers to.
        base_model: the model it was made from.
        family: key of `spinf_serve.engine.models.registry`.
        capabilities: subset of score, extract, generate.
        media: kinds of content besides text.
        stand_in: whether it is for trying things out only; `note` says so plainly.
        note: one line for the start-up log.
        revision: commit or version of the weights.
        borrowed: those of `aliases` that it answers to only because clients ask for them when nobody
            told them another name; nothing was fitted on it under these.
        lint_residual, lint_floor: above which mass outside the options, and above which skew of a
            floor, lint finds fault with a question on this model; None takes its general limits.
        prompt_style: how closed questions are worded; a template of the caller's is put as it is.
        frame: the chat around those of the style `chat`; None with `cloze`.
        chat: how turns of a chat are written for it; None where its files do not say.
    """

    id: str
    name: str
    description: str
    release_date: str
    aliases: tuple[str, ...]
    base_model: str
    family: str
    capabilities: tuple[str, ...]
    media: tuple[str, ...]
    stand_in: bool
    note: str
    revision: str
    lint_residual: float | None = None
    lint_floor: float | None = None
    borrowed: tuple[str, ...] = ()
    prompt_style: PromptStyle = "cloze"
    frame: Frame | None = None
    chat: ChatForm | None = None

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names under which something that was fitted on a model may stand for this one."""
        every = (self.id, self.name, self.base_model, *self.aliases)
        return tuple(dict.fromkeys(name for name in every if name and name not in self.borrowed))
