"""The dashboard and the alert rules ask for metrics and labels that a server has, and no others."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from spinf_serve.engine.api import DeviceMemory
from spinf_serve.server.config import ServerConfig
from tests.contract.conftest import LIMITS
from tests.support.metrics_page import described
from tests.support.servers import question, request, running
from tests.support.stub_engine import POOR, StubEngine
from tests.support.waiting import until

DASHBOARD = "deploy/grafana/dashboards/spinf-serve.json"
# Prometheus adds these itself.
ITS_OWN: dict[str, set[str]] = {"up": set(), "instance": set(), "job": set()}
TARGET = {"instance", "job"}
_METRIC = re.compile(r"\b(?:spinf|process|up)\w*\b(?!\s*\()")
_SELECTOR = re.compile(r"\b([a-z_]\w*)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_BY = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict[str, set[str]]:
    """Sample name -> names of its labels, of a server that has seen everything."""
    stub = StubEngine(LIMITS)
    stub.memory = DeviceMemory(used=1, reserved=2, free=3, total=4)
    log, batches = (str(tmp_path_factory.mktemp("kept") / name) for name in ("log.db", "batches"))
    config = ServerConfig(limits=LIMITS, decision_log=log, batch_dir=batches)
    with running(stub.as_engine, config) as server:
        assert server.score(request("x", question(template=f"\n{POOR}{{?}}"))).status_code == 200
        assert server.score({}).status_code == 400
        body = {"prompt": "one two three", "max_tokens": 2}
        assert server.http.post("/v1/completions", json=body).status_code == 200
        # Texts are counted once the answer is out.
        until(lambda: "spinf_text_seconds_bucket" in server.http.get("/metrics").text)
        text = server.http.get("/metrics").text
    names: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    # No pack was asked, so its counter has no sample yet.
    [packs] = [one for one in described() if one.name not in names and one.kind == "counter"]
    names[packs.name] = set(packs.labels)
    assert len(names) > 60
    return names


def expressions(root) -> Iterator[tuple[str, str]]:
    """(where, expression) of everything that Prometheus is asked."""
    dashboard = json.loads((root / DASHBOARD).read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield (
                variable["name"],
                re.sub(r"label_values\((\w+), (\w+)\)", r"\1{\2=''}", variable["definition"]),
            )
    for note in dashboard["annotations"]["list"]:
        yield note["name"], note["expr"]
    for rule in rules(root):
        yield rule["alert"], rule["expr"]


def rules(root) -> list[dict[str, Any]]:
    loaded = YAML(typ="safe").load((root / "deploy/prometheus/alerts.yml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def faults(expression: str, exported: dict[str, set[str]]) -> list[str]:
    """What an expression asks for that there is not."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    found = []
    labels = set(TARGET)
    # Labels have the names of metrics too, such as `key`: only what stands outside of braces counts.
    outside = _BY.sub("", re.sub(r"\{[^}]*\}", "", bare))
    for name in _METRIC.findall(outside):
        if name not in exported:
            found.append(f"no metric {name}")
        labels |= exported.get(name, set())
    for name, inside in _SELECTOR.findall(bare):
        for label in _LABEL.findall(inside):
            if label not in exported.get(name, set()) | TARGET:
                found.append(f"{name} has no label {label}")
    for group in _BY.findall(bare):
        for label in map(str.strip, group.split(",")):
            if label not in labels:
                found.append(f"nothing has the label {label}")
    return found


def test_every_expression_asks_for_what_there_is(root, exported):
    asked = list(expressions(root))
    assert len(asked) > 60
    wrong = {where: faults(text, exported | ITS_OWN) for where, text in asked}
    assert {where: what for where, what in wrong.items() if what} == {}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("sum(rate(spinf_request_total[5m]))", "no metric spinf_request_total"),
        ('spinf_ready{pack="x"}', "spinf_ready has no label pack"),
        ("sum by (route, colour) (spinf_errors_total)", "nothing has the label route"),
    ],
)
def test_an_expression_that_asks_for_something_else_is_found(exported, expression, fault):
    assert fault in faults(expression, exported)


def test_every_metric_of_ours_but_a_few_is_looked_at(root, exported):
    asked = " ".join(text for _, text in expressions(root))
    unseen = {
        name
        for name in exported
        if name.startswith("spinf_") and not re.search(rf"\b{name}\b", asked)
    }
    # The parts of histograms that a quantile does not need, what never changes, and the like.
    rest = {name for name in unseen if not re.search("_(created|sum|count|bucket)$", name)}
    assert rest == {
        "spinf_forward_seconds_total",
        "spinf_load_seconds",
        "spinf_queue_tokens_limit",
        "spinf_reads_total",
        "spinf_tokens_in_flight",
    }


def test_panels_have_places_of_their_own_and_the_chosen_source(root):
    panels = json.loads((root / DASHBOARD).read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"


def test_every_alert_says_what_happened_and_what_to_do(root):
    found = rules(root)
    assert len({rule["alert"] for rule in found}) == len(found) >= 10
    for rule in found:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"] and rule["annotations"]["action"]


def test_prometheus_scrapes_the_port_that_a_server_listens_on(root):
    config = YAML(typ="safe").load((root / "deploy/prometheus/prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [group] = job["static_configs"]
    assert group["targets"] == [f"server:{ServerConfig().port}"]
    assert 'job="' + job["job_name"] + '"' in " ".join(rule["expr"] for rule in rules(root))
    assert all((root / "deploy/prometheus" / name).is_file() for name in config["rule_files"])


def test_the_page_of_metrics_names_what_a_server_answers_with(exported):
    kinds = {"counter": "", "gauge": "", "histogram": "_bucket"}
    for one in described():
        labels = exported[one.name + kinds[one.kind]]
        assert labels - {"le"} == set(one.labels), one.name
    told = {one.name for one in described()}
    ours = {re.sub("_(created|sum|count|bucket)$", "", name) for name in exported}
    assert {name for name in ours if name.startswith("spinf_")} - told == {
        # What the client adds to counters: when they began.
        re.sub("_total$", "", name)
        for name in told
        if name.endswith("_total") and _began(name, exported)
    }


def _began(name: str, exported: dict[str, set[str]]) -> bool:
    return re.sub("_total$", "_created", name) in exported


def test_the_dashboard_has_the_form_that_grafana_reads(root):
    """What Grafana's own schema of dashboards asks for, as far as this one uses it."""
    dashboard = json.loads((root / DASHBOARD).read_text())
    assert dashboard["schemaVersion"] >= 36 and re.fullmatch(r"[\w-]{1,40}", dashboard["uid"])
    assert isinstance(dashboard["title"], str) and "id" not in dashboard
    assert set(dashboard["time"]) == {"from", "to"}
    assert dashboard["graphTooltip"] in (0, 1, 2)
    for variable in dashboard["templating"]["list"]:
        assert variable["type"] in ("query", "datasource", "custom", "interval")
        assert variable["name"] and "query" in variable
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    units = {"short", "s", "bytes", "percentunit", "reqps", "cps", "bool", "none", "ops"}
    for panel in dashboard["panels"]:
        assert panel["type"] in ("row", "stat", "table", "timeseries", "heatmap"), panel["title"]
        place = panel["gridPos"]
        assert all(type(place[name]) is int for name in "hwxy")
        if panel["type"] == "row":
            assert panel["collapsed"] is False and panel["panels"] == []
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) >= 1
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            used = set(re.findall(r"\$(?!__)\{?(\w+)", target["expr"]))
            assert used <= variables, target["expr"]
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["fieldConfig"]["overrides"] is not None and "options" in panel
        assert defaults.get("unit", "short") in units, (panel["title"], defaults.get("unit"))
        for step in defaults.get("thresholds", {}).get("steps", [])[:1]:
            # The first step has no lower end.
            assert step["value"] is None
