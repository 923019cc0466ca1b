"""The process that holds the model for the page Try: a question a line in, an answer out.

Ends with its standard input, and so with the workbench, or after a while without a question.
"""

import json
import os
import pickle
import select
import sys
from typing import Final

from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.faults import InvalidPack
from spinf_serve.packs.loader import read_pack
from spinf_serve.workbench.actions.trying import Asked, Content, ask
from spinf_serve.workbench.answering import scorer, who_told

IDLE_SECONDS: Final = 900.0


def main() -> None:
    """Answer questions until nobody asks any more; the first line tells which model."""
    out = os.fdopen(os.dup(1), "wb")
    # What libraries print would be taken for an answer.
    os.dup2(2, 1)

    def say(answer: Asked | str | None) -> None:
        pickle.dump(answer, out)
        out.flush()

    try:
        answers = scorer(who_told(json.loads(sys.stdin.buffer.readline())))
    except (SpinfError, Unusable) as fault:
        say(str(fault))
        return
    say(None)
    while select.select([sys.stdin], [], [], IDLE_SECONDS)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        asked = json.loads(line)
        try:
            pack = read_pack(asked["pack"].encode(), asked["name"], fitted=False)
            parameters = tuple((name, value) for name, value in asked["parameters"])
            say(ask(answers, pack, Content(asked["text"], asked["context"], parameters)))
        except (SpinfError, Unusable, InvalidPack) as fault:
            say(str(fault))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Whatever threads a model left do not matter any more.
    os._exit(0)
