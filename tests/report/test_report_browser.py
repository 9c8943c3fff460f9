"""The report in headless Chromium: no console message, no request, nothing that sticks out, and a switch that works."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcne.report.writing import report_of, write_page

pytestmark = pytest.mark.slow

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROBE = """<!DOCTYPE html><meta charset="utf-8"><title>probe</title>
<iframe id="page" style="width: WIDTHpx; height: 900px; border: 0" src="PAGE"></iframe><pre id="measured"></pre><script>
const page = document.getElementById("page");
page.onload = () => {
  const inner = page.contentDocument, root = inner.documentElement;
  const look = () => ({
    paper: getComputedStyle(root).backgroundColor,
    dark: [...inner.querySelectorAll("img.on-dark")].filter((image) => image.offsetWidth).length,
    light: [...inner.querySelectorAll("img.on-light")].filter((image) => image.offsetWidth).length,
  });
  const measured = { wide: root.scrollWidth, broken: [...inner.images].filter((image) => !image.naturalWidth).length };
  for (const theme of ["light", "dark"]) { inner.getElementById("theme-" + theme).click(); measured[theme] = look(); }
  document.getElementById("measured").textContent = JSON.stringify(measured);
};</script>"""


@pytest.fixture(scope="session")
def browser() -> str:
    executable = next((path for name in NAMES if (path := shutil.which(name))), None)
    if executable is None:
        missing = f"needs a browser: one of {', '.join(NAMES)}"
        if os.environ.get("MCNE_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    return executable


@pytest.fixture(scope="session", params=["run", "comparison"])
def page(request: pytest.FixtureRequest, evil: Path, compared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each kind; the run's has names that would be scripts, and a map."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    report = report_of(evil / "mcne" if request.param == "run" else compared)
    assert ("map" in [drawing.name for drawing in report.drawings]) == (request.param == "run")
    write_page(report, path)
    return path


def browse(browser: str, page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [browser, "--headless=new", "--disable-gpu", "--no-first-run", f"--user-data-dir={profile}"]
    command += [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
    ]
    command += ["--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", *options]
    command += ["--proxy-server=127.0.0.1:9"]  # where nobody answers: whatever the browser wants for itself stays here
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    return subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def asked_for(net_log: Path) -> list[str]:
    """Addresses that a page wanted; those without an origin are the browser's own business."""
    told = [event.get("params", {}) for event in json.loads(net_log.read_text())["events"]]
    return [each["url"] for each in told if "url" in each and each.get("initiator", "not an origin") != "not an origin"]


def test_it_says_nothing_and_asks_nobody(browser: str, page: Path, tmp_path: Path) -> None:
    done = browse(browser, page, tmp_path / "profile", f"--log-net-log={tmp_path / 'net.json'}")
    assert "Fingerprints" in done.stdout
    assert console(done) == []
    assert asked_for(tmp_path / "net.json") == []


def test_a_page_that_does_is_caught(browser: str, tmp_path: Path) -> None:
    """So that the silence above means something."""
    bad = tmp_path / "bad.html"
    bad.write_text('<title>x</title><img alt="" src="http://example.invalid/x.png"><script>undefined_thing</script>')
    done = browse(browser, bad, tmp_path / "profile", f"--log-net-log={tmp_path / 'net.json'}")
    assert console(done)
    assert asked_for(tmp_path / "net.json") == ["http://example.invalid/x.png"]


@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_the_screen_and_the_switch_works(width: int, browser: str, page: Path, tmp_path: Path) -> None:
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", page.as_uri()))
    done = browse(browser, probe, tmp_path / "profile", "--allow-file-access-from-files")
    told = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told is not None
    measured: dict[str, Any] = json.loads(html.unescape(told[1]))
    assert measured["wide"] <= width
    assert measured["broken"] == 0
    assert measured["light"]["paper"] == "rgb(255, 255, 255)"
    assert measured["dark"]["paper"] == "rgb(22, 24, 28)"
    assert measured["light"]["light"] == measured["dark"]["dark"] > 0
    assert measured["light"]["dark"] == measured["dark"]["light"] == 0
