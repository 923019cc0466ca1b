"""The text of docs/lint.md, made from the rules and limits of lint."""

from dataclasses import fields

from spinf_serve.engine.loading.manifest import read_manifests
from spinf_serve.packs.lint_rules import RULES, Limits

_HEAD = """# What `packs lint` finds

`spinf-serve packs lint <file or id>` asks a model the pack's questions about a few contents: those of
`sample.csv` beside the pack, of `--contents`, or of `--content`. Questions are also asked on no content
(the floor), and where a template lists its options, with the list turned around. Exit code 1 says that
something remains.

"""

_WAIVERS = """
## Waivers

A finding that is right as it is can be accepted in the pack's file, with a reason. It is then shown and
counted apart, and a waiver that accepts nothing is a finding itself. `on` is a question's id, or `"*"`.

```yaml
lint:
  waive:
    - {rule: no_rest_option, on: stars, reason: one to five is a whole scale}
```

A question that denies another one's statement says so with `negates: <id of the other>`.
"""


def page(note: str) -> str:
    """The whole document; `note` stands at its top."""
    text = f"{note}{_HEAD}| Rule | Finds | Remedy |\n|---|---|---|\n"
    for name, rule in RULES.items():
        text += f"| `{name}` | {rule.finds} | {rule.remedy} |\n"
    return text + _limits() + _WAIVERS


def _limits() -> str:
    every = [manifest.served for manifest in read_manifests()]
    served = [one for one in every if (one.lint_residual, one.lint_floor) != (None, None)]
    own = {
        "residual": [one.lint_residual for one in served],
        "floor": [one.lint_floor for one in served],
    }
    text = (
        "\n## Limits\n\nA model's manifest may set its own where small models differ from large.\n"
    )
    text += "\n| | What it is | Limit |" + "".join(f" `{one.id}` |" for one in served)
    text += "\n|---|---|---|" + "---|" * len(served) + "\n"
    meanings = _meanings()
    for field in fields(Limits):
        mine = [None] * len(served) if field.name not in own else own[field.name]
        cells = "".join(f" {'' if one is None else one} |" for one in mine)
        text += f"| `{field.name}` | {meanings[field.name]} | {field.default} |{cells}\n"
    return text


def _meanings() -> dict[str, str]:
    """Field -> what its class's docstring says of it."""
    lines = (Limits.__doc__ or "").split("Attributes:")[1].strip().splitlines()
    return {
        name.strip(): text.strip(" .") for name, _, text in (line.partition(":") for line in lines)
    }
