"""Who answers: settings travel whole, and tokens where nobody else reads them."""

import stat

import pytest

from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import ServerConfig, load
from spinf_serve.workbench.answering import (
    WHO,
    Who,
    forget_who,
    given_who,
    keep_who,
    kept_who,
    local_who,
    scorer,
    who_plain,
    who_told,
)
from spinf_serve.workbench.started import Started, start_as
from tests.support.servers import running
from tests.support.stub_engine import SERVED, StubEngine


def test_settings_of_a_model_come_back_as_they_were(tmp_path):
    flags = {"model": "embedded", "threads": "1", "max_content_tokens": "100"}
    config = load({**flags, "offline": True}, {})
    keep_who(Who(None, None, config), tmp_path)
    found = kept_who(tmp_path)
    assert found.config.engine == config.engine
    assert found.config.engine.open_limits == config.engine.open_limits
    assert found.config.limits == config.limits
    assert "max_content_tokens" not in found.config.engine.open_limits


def test_what_is_kept_is_read_by_its_owner_only_and_forgotten(tmp_path):
    keep_who(Who("http://there", "token-1"), tmp_path)
    assert stat.S_IMODE((tmp_path / WHO).stat().st_mode) == 0o600
    assert kept_who(tmp_path) == Who("http://there", "token-1")
    assert "token-1" not in repr(kept_who(tmp_path)) + str(kept_who(tmp_path))
    forget_who(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Unusable, match="not known any more"):
        kept_who(tmp_path)


def test_other_secrets_of_the_settings_stay_behind():
    config = ServerConfig(token="a-token", github_token="another", keys=("name: key-3",))
    told = repr(who_plain(Who(None, None, config)))
    assert not [one for one in ("a-token", "another", "key-3") if one in told]
    assert who_told(who_plain(Who(None))) == Who(None)


def test_the_start_says_who_answers(tmp_path):
    start_as(Started(tmp_path, "http://there", None, "token-1"))
    assert given_who() == Who("http://there", "token-1")
    assert str(local_who()) == "the model on this machine"
    start_as(Started(tmp_path, None, ServerConfig(), "token-1"))
    # The token is that of a server, and there is none.
    assert given_who() == local_who() == Who(None, None, ServerConfig())


def test_a_server_answers_with_its_token():
    config = ServerConfig(port=0, token="token-1")
    with running(lambda: StubEngine().as_engine(), config) as server:
        assert scorer(Who(server.url, "token-1")).identity.served == SERVED.id
        with pytest.raises(Unusable, match="401"):
            scorer(Who(server.url, "wrong"))
    with pytest.raises(Unusable, match="cannot be reached"):
        scorer(Who(server.url, "token-1"))
