"""What may be asked besides closed questions: found answers and written text, or why not.

Three have a say: the served model, the settings of the server, and a trusted caller for one call.
"""

from dataclasses import dataclass

from spinf_serve.engine.api import Engine
from spinf_serve.packs.errors import Refused


@dataclass(frozen=True, slots=True)
class Switches:
    """What a server was started with.

    Attributes:
        extraction: whether slots are searched.
        generation: whether text is written.
    """

    extraction: bool = True
    generation: bool = True


ALL_ON = Switches()


@dataclass(frozen=True, slots=True)
class Features:
    """What a call may ask for.

    Attributes:
        extraction: why slots are not searched, as the end of a sentence; None where they are.
        generation: why no text is written; None where it is.
    """

    extraction: str | None = None
    generation: str | None = None

    def without(self, extraction: bool, generation: bool) -> "Features":
        """The same with what a call switches off besides."""
        why = "the call switches it off (features)"
        return Features(
            why if extraction and self.extraction is None else self.extraction,
            why if generation and self.generation is None else self.generation,
        )

    def require_extraction(self, param: str) -> None:
        """Raises `Refused` (`extraction_disabled`) where slots are not searched."""
        if self.extraction is not None:
            raise Refused(
                "extraction_disabled",
                f"free answers are not read here: {self.extraction}; end the template with `{{?}}` "
                "and give options",
                param,
            )

    def require_generation(self, param: str | None) -> None:
        """Raises `Refused` (`generation_disabled`) where no text is written."""
        if self.generation is not None:
            raise Refused(
                "generation_disabled", f"no text is written here: {self.generation}", param
            )


def features_of(engine: Engine, switches: Switches) -> Features:
    """What the served model can, as far as the server was started with it."""
    can = engine.served.capabilities
    return Features(
        _why_not("extract" in can, switches.extraction, engine, "--no-extraction"),
        _why_not("generate" in can, switches.generation, engine, "--no-generation"),
    )


def _why_not(can: bool, wanted: bool, engine: Engine, flag: str) -> str | None:
    if not can:
        return f"the served model {engine.served.id} only scores"
    return None if wanted else f"the server was started with {flag}"
