"""The packs that are served: one catalogue at a time, swapped whole when a local file changes.

Requests hold the packs they were read with, so a change never reaches one in flight.
"""

import logging
from dataclasses import dataclass

from spinf_serve.engine.api import Engine
from spinf_serve.engine.work import Work
from spinf_serve.packs.catalogue import Catalogue, load_catalogue, official_folder
from spinf_serve.packs.errors import Refused
from spinf_serve.packs.evaluate import state
from spinf_serve.packs.pack import Constants, Pack, State
from spinf_serve.packs.sources import Access
from spinf_serve.server.config import ServerConfig, packs_cache

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fit:
    """A pack on the served model.

    Attributes:
        constants: what was fitted on it; None for a draft.
        state: how far its thresholds can be trusted here.
        query_tokens: usage tokens of its questions on one content.
        refusal: why the model cannot be asked the pack's questions, such as an option that it
            writes in too many tokens; None when it can.
        doubt: that its proof was made on another model, in words; None when it was not, or there
            is none.
    """

    constants: Constants | None
    state: State
    query_tokens: int
    refusal: Refused | None = None
    doubt: str | None = None


class ServedPacks:
    """The served packs. Any thread.

    Attributes:
        catalogue: what is served now.
        strict: whether a pack is refused whose proof was made on another model.
    """

    def __init__(self, catalogue: Catalogue, *, strict: bool = False) -> None:
        self.catalogue = catalogue
        self.strict = strict
        self._fits: dict[tuple[str, str], Fit] = {}

    def refresh(self) -> None:
        """Takes up changed files; an invalid one leaves its old version serving, and is told."""
        catalogue = self.catalogue.refreshed(logger.warning, logger.info)
        if catalogue is not self.catalogue:
            self.catalogue = catalogue
            self._fits = {}

    def fit(self, pack: Pack, engine: Engine) -> Fit:
        """The pack on the engine's model; worked out once."""
        key = (pack.digest, engine.fingerprint.model)
        found = self._fits.get(key)
        if found is None:
            constants = pack.constants(engine.served.own_names)
            known = state(pack, constants, engine.fingerprint.model)
            doubt = _doubt(pack, constants, engine)
            try:
                tokens = engine.compile(Work("", pack.questions)).counts.query_tokens
            except Refused as refused:
                found = Fit(constants, known, 0, refused_by_model(pack, refused), doubt)
            else:
                refusal = None
                if self.strict and doubt is not None:
                    refusal = Refused("pack_of_other_model", doubt)
                found = Fit(constants, known, tokens, refusal, doubt)
            self._fits[key] = found
        return found

    def tell(self, engine: Engine) -> None:
        """Logs which packs are served, and which of them only as drafts."""
        states: dict[str, list[str]] = {}
        for entry in self.catalogue.entries:
            if entry.version is not None:
                fit = self.fit(self.catalogue.get(entry.id), engine)
                if fit.refusal is not None:
                    logger.warning("%s; a call that names it is refused", fit.refusal.message)
                    continue
                if fit.doubt is not None:
                    logger.warning("%s", fit.doubt)
                states.setdefault(fit.state, []).append(f"{entry.id} {entry.version}")
        for name, ids in states.items():
            logger.info("packs served as %s: %s", name, ", ".join(ids))
        if "draft" in states:
            logger.warning(
                "nothing was fitted on %s for the drafts: they answer and decide nothing",
                engine.served.id,
            )


def _doubt(pack: Pack, constants: Constants | None, engine: Engine) -> str | None:
    proof = None if constants is None else constants.proof
    named = None if proof is None else proof.get("model")
    if not isinstance(named, str) or named == engine.fingerprint.model:
        return None
    return (
        f"the thresholds of {pack.id} {pack.version} were proven on a model with the digest "
        f"{named[:12]}, and {engine.served.id} has {engine.fingerprint.model[:12]} here (weights, "
        "number format and numerics count), so what its proof promises does not hold: serve that "
        "model in that format, or fit the pack again"
    )


def refused_by_model(pack: Pack, refused: Refused) -> Refused:
    """An engine's refusal of a pack's questions in words for whoever names the pack."""
    _, number, *field = (refused.param or "").split(".")
    where = f"{'.'.join(field)} of its question {pack.questions[int(number)].id!r}"
    return Refused(
        refused.code,
        f"the served model cannot be asked the pack {pack.id} {pack.version}: {where}: "
        f"{refused.message}",
    )


def open_packs(config: ServerConfig) -> ServedPacks:
    """The official packs and those of the configured sources.

    Raises:
        Unusable: a source that was given cannot be read or contradicts another.
    """
    access = Access(
        cache=packs_cache(config),
        token=config.github_token,
        offline=config.engine.offline,
        refresh=config.packs_refresh,
    )
    official = str(official_folder()) if config.official_packs else None
    return ServedPacks(
        load_catalogue(
            config.packs,
            official=official,
            access=access,
            say=logger.warning,
            tell=logger.info,
        ),
        strict=config.strict_packs,
    )
