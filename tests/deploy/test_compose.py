"""The compose file: what it names is there, its settings are settings, its parts find each other."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from spinf_serve.server.config import ServerConfig
from spinf_serve.server.settings import SETTINGS

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
PROFILES = ("gpu", "cpu")


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def compose() -> Any:
    return read(DEPLOY / "compose.yaml")


def servers(compose: Any) -> dict[str, Any]:
    return {name: one for name, one in compose["services"].items() if "build" in one}


def test_each_way_to_start_it_has_one_server_with_prometheus_and_grafana(compose):
    for profile in PROFILES:
        started = {name for name, one in compose["services"].items() if profile in one["profiles"]}
        assert started == {f"server-{profile}", "prometheus", "grafana"}
    devices = compose["services"]["server-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
    assert "deploy" not in compose["services"]["server-cpu"]


def test_files_and_volumes_that_it_names_are_there(compose):
    used = set()
    for one in compose["services"].values():
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).is_dir(), source
                assert volume.endswith(":ro")
            else:
                used.add(source)
    assert used == set(compose["volumes"])
    for server in servers(compose).values():
        assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
        named = (DEPLOY / "Dockerfile").read_text("utf-8")
        assert all(f"ARG {name}=" in named for name in server["build"]["args"])


def test_images_of_others_are_of_one_version(compose):
    for name in ("prometheus", "grafana"):
        assert re.search(r":v?\d+\.\d+\.\d+$", compose["services"][name]["image"])


def test_what_it_sets_are_settings(compose):
    known = {setting.env for setting in SETTINGS} | {"HF_TOKEN"}
    for server in servers(compose).values():
        assert {entry.split("=")[0] for entry in server["environment"]} <= known
        # A process that is killed before its settings say so answers nothing of what is in work.
        grace_seconds = int(server["stop_grace_period"].removesuffix("s"))
        assert grace_seconds > ServerConfig().shutdown_seconds + ServerConfig().drain_seconds


def test_nothing_is_reached_from_other_machines(compose):
    for one in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in one["ports"])


def test_prometheus_reaches_the_server_and_may_read_its_metrics(compose):
    (scraped,) = read(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"server:{ServerConfig().port}"]}]
    for server in servers(compose).values():
        assert server["networks"]["default"]["aliases"] == ["server"]
        assert "SPINF_OPEN_METRICS=true" in server["environment"]
    rules = read(DEPLOY / "prometheus" / "prometheus.yml")["rule_files"]
    assert all((DEPLOY / "prometheus" / rule).is_file() for rule in rules)


def test_grafana_reads_its_dashboards_and_prometheus(compose):
    mounted = dict(volume.split(":")[:2] for volume in compose["services"]["grafana"]["volumes"])
    provisioning = DEPLOY / "grafana" / "provisioning"
    (provider,) = read(provisioning / "dashboards" / "spinf-serve.yml")["providers"]
    assert mounted["./grafana/dashboards"] == provider["options"]["path"]
    (source,) = read(provisioning / "datasources" / "prometheus.yml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert host in compose["services"]
    assert compose["services"][host]["ports"] == [f"127.0.0.1:{port}:{port}"]
