"""All pages with names and texts of others: nothing is run, and nothing is even tried to be fetched."""

from urllib.parse import urlencode, urlsplit

import pytest

from spinf_serve.workbench.page_list import PAGES
from tests.workbench.browser.conftest import running
from tests.workbench.browser.test_pages import SETTLED
from tests.workbench.hostile_desk import evil, hostile

PACK = "packs/triage/pack.yaml"
MORE = [
    ("pack", {"tab": "Form", "form": "Categories"}),
    ("pack", {"tab": "Lint"}),
    ("pack", {"pack": "packs/![f](x) `f` *f*.yaml", "tab": "Form"}),
    ("data", {"row": evil("row0")}),
    ("data", {"row": evil("nothing")}),
    ("data", {"part": "label"}),
    ("data", {"part": "import"}),
    ("scores", {"row": evil("row0")}),
    ("thresholds", {"part": "certify"}),
    ("history", {"tab": "Settings"}),
]


@pytest.fixture(scope="module")
def bench(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "project"
    folder.mkdir()
    hostile(folder)
    with running(folder, chromium) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "params"),
    [*((one.path, {}) for one in PAGES), *MORE],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
def test_nothing_is_run_or_fetched(bench, path, params):
    bench.faults.clear()
    tried, blocked = [], []
    with bench.tab() as page:
        page.on("request", lambda made: tried.append(made.url))
        page.on(
            "console",
            lambda told: blocked.append(told.text) if "Security Policy" in told.text else None,
        )
        page.goto(bench.url + "/" + path + "?" + urlencode({"pack": PACK, **params}))
        page.wait_for_selector("h1")
        page.wait_for_function(SETTLED)
        page.wait_for_timeout(700)
        assert page.evaluate("() => window.hasRun") is None
        assert page.locator("[data-testid=stException]").count() == 0
        pictures = "() => [...document.images].filter(one => one.src.includes('elsewhere')).length"
        assert page.evaluate(pictures) == 0
        links = page.evaluate("() => [...document.links].map(one => one.href)")
    own = urlsplit(bench.url).netloc
    assert [
        url
        for url in (*tried, *links)
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != own
    ] == []
    # What the policy had to stop is a name that was drawn as Markdown.
    assert blocked == []
    assert bench.faults == []


def test_a_picture_that_slips_through_is_not_fetched(bench):
    with bench.tab() as page:
        page.wait_for_selector("h1")
        told = page.evaluate(
            "() => new Promise(done => { document.addEventListener('securitypolicyviolation', one =>"
            " done(one.violatedDirective)); const one = new Image(); one.src ="
            " 'http://elsewhere.invalid/x.png'; })"
        )
    assert told == "img-src"
