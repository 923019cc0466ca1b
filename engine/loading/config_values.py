"""Typed reading of the values in a config.json. Knows how values are spelt, not what models do."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spinf_serve.engine.models.spec import Rope
from spinf_serve.packs.errors import Unusable

# Key, values that mean "not used", and what another value would ask for.
Unsupported = tuple[tuple[str, tuple[object, ...], str], ...]

_MOST_LAYERS: Final = 10_000
_KINDS_OF_LAYERS: Final = ("full_attention", "sliding_attention")


class Values:
    """A flat config with its defaults filled in; nulls count as absent.

    Every method raises `Unusable`, one line that names the file, the key and what was found.
    """

    def __init__(self, values: Mapping[str, Any], where: Path) -> None:
        self._values = values
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def get(self, key: str, default: object = None) -> Any:
        """The value as it is."""
        return self._values.get(key, default)

    def refuse(self, unsupported: Unsupported) -> None:
        """Names everything of a list that the file asks for."""
        asked = []
        for key, neutral, what in unsupported:
            value = self._values.get(key)
            if value not in neutral:
                shown = value.get("quant_method", "?") if isinstance(value, dict) else value
                asked.append(f"{what} ({key}: {shown})")
        if asked:
            verb = "is" if len(asked) == 1 else "are"
            raise self.wrong(f"{', '.join(asked)} {verb} not supported")

    def size(self, key: str) -> int:
        """A positive whole number."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(f"{key} should be a positive whole number, found {value!r}")
        return value

    def number(self, key: str) -> float:
        """A number."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(f"{key} should be a number, found {value!r}")
        return float(value)

    def flag(self, key: str) -> bool:
        """True or false; false when absent."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} should be true or false, found {value!r}")
        return value

    def layer_count(self) -> int:
        """The number of layers."""
        count = self.size("num_hidden_layers")
        if count > _MOST_LAYERS:
            raise self.wrong(f"num_hidden_layers is {count}, more than any model has")
        return count

    def full_layers(self, count: int) -> list[bool] | None:
        """For each of `count` layers whether it sees everything; None when `layer_types` is absent."""
        kinds = self._values.get("layer_types")
        if kinds is None:
            return None
        if not isinstance(kinds, list) or len(kinds) != count:
            raise self.wrong(f"layer_types should list {count} layers")
        for kind in kinds:
            if kind not in _KINDS_OF_LAYERS:
                raise self.wrong(f"layers of type {kind} (layer_types) are not supported")
        return [kind == "full_attention" for kind in kinds]

    def table(self, key: str, default: Mapping[str, Any]) -> Mapping[str, Any]:
        """An object."""
        value = self._values.get(key, default)
        if not isinstance(value, dict):
            raise self.wrong(f"{key} is {value!r}, not an object")
        return value

    def nested(self, values: Mapping[str, Any]) -> "Values":
        """Reads an object in the same file."""
        return Values(values, self._where)

    def rope_table(self) -> Mapping[str, Any]:
        """The rotary settings under their new or their old key."""
        table = self._values.get("rope_parameters", self._values.get("rope_scaling", {}))
        if not isinstance(table, dict):
            raise self.wrong(f"rope_parameters or rope_scaling is {table!r}, not an object")
        return table

    def rope(self, table: object, theta: float) -> Rope:
        """The rotary embedding that a table of settings describes.

        Args:
            table: settings of one kind of layer.
            theta: base, if the table has none.
        """
        if not isinstance(table, dict):
            raise self.wrong(f"rotary settings are {table!r}, not an object")
        given = {key: value for key, value in table.items() if value is not None}
        kind = given.get("rope_type", given.get("type", "default"))
        values = self.nested({"rope_theta": theta, "partial_rotary_factor": 1.0, **given})
        theta, moving = values.number("rope_theta"), values.number("partial_rotary_factor")
        if kind == "proportional":
            if not 0 < moving <= 1:
                raise self.wrong(
                    f"partial_rotary_factor is {moving}, not a share of the dimensions"
                )
            factor = values.number("factor") if "factor" in values else 1.0
            return Rope("proportional", theta, factor=factor, moving=moving)
        if moving != 1.0:
            raise self.wrong("rotary embedding of a part of the dimensions is not supported")
        if kind == "default":
            return Rope("default", theta)
        if kind == "linear":
            return Rope("linear", theta, factor=values.number("factor"))
        if kind == "llama3":
            context = given.get(
                "original_max_position_embeddings", self._values["max_position_embeddings"]
            )
            if not isinstance(context, int):
                raise self.wrong(f"original_max_position_embeddings is {context!r}, not a count")
            return Rope(
                "llama3",
                theta,
                factor=values.number("factor"),
                low_freq_factor=values.number("low_freq_factor"),
                high_freq_factor=values.number("high_freq_factor"),
                original_context=context,
            )
        raise self.wrong(f"rotary scaling of type {kind} is not supported")

    def wrong(self, what: str) -> Unusable:
        """An error that names the file."""
        return Unusable(f"{self._where}: {what}")
