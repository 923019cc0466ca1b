"""The process that holds a model for the page Try, with the stub engine in it."""

import sys

from spinf_serve.engine.work import Limits
from spinf_serve.workbench import model_child
from tests.support.stub_engine import StubEngine

COMMAND = [sys.executable, "-m", "tests.support.model_process"]

MOST_TOKENS = 40
"""Of a content; what is longer is cut or refused."""

if __name__ == "__main__":
    from spinf_serve.engine import api

    api.open_engine = lambda *_: StubEngine(Limits(max_content_tokens=MOST_TOKENS)).as_engine()
    model_child.main()
