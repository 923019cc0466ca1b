"""Settings: precedence, refusals that name their source, and one table for everything."""

import dataclasses

import pytest

from spinf_serve.engine.config import EngineConfig
from spinf_serve.engine.work import Limits
from spinf_serve.packs.errors import Unusable
from spinf_serve.server.config import (
    ServerConfig,
    default_of,
    load,
    share_cores,
    unknown_variables,
)
from spinf_serve.server.setting_forms import Choice, Count, Share, Switch, Texts, Value
from spinf_serve.server.settings import SETTINGS, settings_of


@pytest.fixture
def toml(tmp_path):
    def write(text: str):
        path = tmp_path / "spinf.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(flags=None, environ=None, file=None) -> str:
    with pytest.raises(Unusable) as caught:
        load(flags or {}, environ or {}, file)
    return str(caught.value)


def test_nothing_given_gives_the_defaults():
    assert load({}, {}) == ServerConfig()


def test_listens_on_this_machine_only_by_default():
    assert load({}, {}).host == "127.0.0.1"


@pytest.mark.parametrize(
    ("flags", "environ", "text", "port"),
    [
        ({"port": "1"}, {"SPINF_PORT": "2"}, "port = 3", 1),
        ({"port": None}, {"SPINF_PORT": "2"}, "port = 3", 2),
        ({}, {}, "port = 3", 3),
        ({}, {}, "[server]\nport = 4", 4),
        ({}, {}, "", 8000),
    ],
)
def test_flag_wins_over_environment_over_file_over_default(toml, flags, environ, text, port):
    assert load(flags, environ, toml(text)).port == port


def test_a_switch_turned_off_by_flag_wins(toml):
    config = load({"offline": False}, {"SPINF_OFFLINE": "true"}, toml("offline = true"))
    assert config.engine.offline is False


def test_every_table_of_the_file_is_read(toml):
    config = load(
        {},
        {},
        toml(
            '[engine]\nmodel = "a/b"\nthreads = 1\n[server]\ndebug = true\n'
            "[limits]\nmax_options = 7\n"
        ),
    )
    assert config.engine == EngineConfig(model="a/b", threads=1)
    assert config.limits == Limits(max_options=7)
    assert config.debug is True


def test_the_environment_can_name_the_file(toml):
    assert load({}, {"SPINF_CONFIG": str(toml("port = 5"))}).port == 5


def test_the_named_file_wins_over_the_environment_s(toml, tmp_path):
    (tmp_path / "other.toml").write_text("port = 6")
    config = load({}, {"SPINF_CONFIG": str(tmp_path / "other.toml")}, toml("port = 5"))
    assert config.port == 5


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_can_be_set_from_each_source(setting, toml):
    flipped = not default_of(setting)
    forms: dict[type, tuple[Value, str, str]] = {
        Count: (77, "77", "77"),
        Share: (0.77, "0.77", "0.77"),
        Switch: (flipped, str(flipped).lower(), str(flipped).lower()),
        Texts: (("a", "b"), "a, b", '["a", "b"]'),
    }
    word = setting.form.words[-1] if isinstance(setting.form, Choice) else "other"
    sample, written, in_file = forms.get(type(setting.form), (word, word, f'"{word}"'))
    if isinstance(setting.form, Count) and setting.form.minimum > 77:
        sample, written, in_file = setting.form.minimum, *[str(setting.form.minimum)] * 2
    flag = list(sample) if isinstance(sample, tuple) else written
    for config in (
        load({setting.name: flag}, {}),
        load({}, {setting.env: written}),
        load({}, {}, toml(f"{setting.name} = {in_file}")),
    ):
        owner = {"engine": config.engine, "limits": config.limits, "server": config}[setting.table]
        assert getattr(owner, setting.name) == sample
        assert sample != default_of(setting)


def test_the_table_of_settings_holds_every_field_once():
    def fields(owner) -> list[str]:
        names = [part.name for part in dataclasses.fields(owner)]
        return [name for name in names if name not in ("engine", "limits", "open_limits")]

    # A server's own setting: what else opens an engine asks about no content twice.
    engine = [name for name in fields(EngineConfig) if name != "trunk_cache_bytes"]
    assert [setting.name for setting in settings_of("engine")] == engine
    assert [setting.name for setting in settings_of("limits")] == fields(Limits)
    assert [setting.name for setting in settings_of("server")] == fields(ServerConfig)


def test_every_default_is_acceptable():
    for setting in SETTINGS:
        if default_of(setting) is not None:
            assert setting.form.from_toml(default_of(setting)) == default_of(setting)


@pytest.mark.parametrize(
    "text", ["65536", "-1", "8e3", "0x50", "", "8 000", "٣", "true", "9" * 5000]
)
def test_a_port_that_is_none_is_refused_with_its_source(text):
    assert refusal(flags={"port": text}) == (
        f'--port "{text}": it takes a whole number from 0 to 65535'
    )
    assert refusal(environ={"SPINF_PORT": text}).startswith(f'SPINF_PORT "{text}": it takes')


@pytest.mark.parametrize("written", ["'80'", "true", "80.0", "70000", "[80]"])
def test_a_value_of_the_wrong_type_in_the_file_is_refused_with_its_path(toml, written):
    path = toml(f"[server]\nport = {written}")
    message = refusal(file=path)
    assert message.startswith(f"{path}: server.port = ")
    assert message.endswith("it takes a whole number from 0 to 65535")


def test_a_word_outside_the_choice_is_refused():
    assert refusal(flags={"dtype": "float16"}) == (
        '--dtype "float16": it takes float32 or bfloat16'
    )


@pytest.mark.parametrize("text", ["-0.1", "1.1", "5%", "nan", "inf", "", "true"])
def test_a_share_that_is_none_is_refused(text):
    assert refusal(flags={"log_sample": text}) == (
        f'--log-sample "{text}": it takes a number from 0 to 1'
    )


@pytest.mark.parametrize(
    ("written", "share"), [("0", 0.0), ("1", 1.0), ("0.5", 0.5), ("1e-3", 1e-3)]
)
def test_a_share_may_be_a_whole_number(toml, written, share):
    assert load({}, {}, toml(f"log_sample = {written}")).log_sample == share
    assert load({"log_sample": written}, {}).log_sample == share


def test_a_model_is_named_as_an_argument():
    assert refusal(flags={"model": " "}) == 'MODEL " ": it takes a text that is not empty'


TOKEN_TAKES = "letters, digits and signs of ASCII, with no space or line end before or behind them"


@pytest.mark.parametrize(
    "text", ["", " ", " s3", "s3 ", "s3\n", "s\r\n3", "s\t3", "sécret", "\udcff", "s3\x7f"]
)
@pytest.mark.parametrize("name", ["token", "trusted_token"])
def test_a_token_that_no_header_carries_is_refused_at_the_start(name, text):
    # Also an empty one: it would leave the server open.
    flag = f"--{name.replace('_', '-')}"
    assert refusal(environ={f"SPINF_{name.upper()}": text}) == (
        f"SPINF_{name.upper()}: it takes {TOKEN_TAKES}"
    )
    assert refusal(flags={name: text}) == f"{flag}: it takes {TOKEN_TAKES}"


@pytest.mark.parametrize("text", ["x", "a b", "!~", "AZaz09-._~+/="])
def test_a_token_that_a_header_carries_is_taken_as_it_is(text):
    assert load({"token": text, "trusted_token": text}, {}).trusted_token == text


def test_a_secret_is_shown_nowhere(toml):
    path = toml("token = 12345678")
    assert "12345678" not in refusal(file=path)
    assert "s3cret" not in repr(load({"token": "s3cret", "trusted_token": "s3cret"}, {}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot is no setting; did you mean port?"),
        ("[server]\nprot = 1", "server.prot is no setting; did you mean port?"),
        ("[engine]\nport = 1", "engine.port belongs in the table [server]"),
        ("port = 1\n[server]\nport = 1", "port stands both at the top and in [server]"),
        ("[limit]\nmax_options = 1", "[limit] is no table of settings; did you mean limits?"),
        ("zebra = 1", "zebra is no setting"),
    ],
)
def test_an_unknown_key_is_refused_with_the_near_match(toml, text, message):
    path = toml(text)
    assert refusal(file=path).startswith(f"{path}: {message}")


@pytest.mark.parametrize("content", [b"port = ", b"port = 1\nport = 2", b"\xff\xfe", b"a\x00 = 1"])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    assert refusal(file=path).startswith(f"configuration file {path} is not TOML in UTF-8: ")


def test_a_byte_order_mark_before_the_settings_is_no_fault(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbfport = 5")
    assert load({}, {}, path).port == 5


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert refusal(file=tmp_path / "absent.toml").endswith("absent.toml: No such file or directory")
    assert refusal(file=tmp_path).endswith("Is a directory")


def test_a_misspelt_variable_is_reported_and_the_client_s_are_not():
    environ = {
        "SPINF_PROT": "1",
        "SPINF_API_KEY": "k",
        "SPINF_PORT": "1",
        "PATH": "/",
        "SPINF_X": "",
    }
    assert unknown_variables(environ) == (
        "SPINF_PROT is read by no setting; did you mean SPINF_PORT?",
        "SPINF_X is read by no setting",
    )


def test_words_of_a_choice_are_shown_in_usage_lines():
    assert Choice(("a", "b")).placeholder == "a|b"


def test_threads_sleep_while_they_wait_unless_told_otherwise():
    unset: dict[str, str] = {}
    share_cores(unset)
    assert unset == {"OMP_WAIT_POLICY": "passive"}
    told = {"OMP_WAIT_POLICY": "active"}
    share_cores(told)
    assert told == {"OMP_WAIT_POLICY": "active"}
