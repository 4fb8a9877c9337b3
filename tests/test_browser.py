"""The report and the matrix of pairs in a real browser: headless Chromium opens them by mouse, by keyboard and without
scripts.

Skipped where there is no chromium or chromedriver on PATH; with ACCLIMATE_BROWSER=required in the environment that is a
failure instead. On Debian: apt-get install chromium chromium-driver.
"""

import os
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException, WebDriverException
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

import running_jobs
import studies
from acclimate.core import files
from acclimate.core.types import DEV_SCORES, Progress
from acclimate.jobs import job
from acclimate.jobs.run import do_all
from acclimate.races import report
from acclimate.races.compare import Contrast
from acclimate.races.tables import page_of
from acclimate.reports import live
from acclimate.reports.page import Page, Section
from acclimate.studies.stilt import ALONE, MORE, matrix

pytestmark = pytest.mark.usefixtures("plots")

NASTY = (
    "<script>alert(1)</script>",
    "\"double\" 'single' & <b onclick='alert(2)'>",
    "שלום עולם، مرحبا",
    "🧬🔬 gène \N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "x" * 200,
    "]]> --> {{ 7 * 7 }} </style></table>",
)
NAMES = (NASTY[0], "Drugs & co", NASTY[3])  # of datasets: what goes before the first helps, before the last harms
SHOWN = {label.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\\u202e") for label in NASTY}  # it would turn what follows it
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCHEMES, REPORTS = ("light", "dark"), ("six", "numbers")
PAGES = (*REPORTS, "matrix")
TOP = "section[aria-labelledby=contestants]"  # plot and table below the answer

# [text, ratio, needed] of every element that holds text whose contrast with what lies behind it is too low
CONTRAST = r"""
const numbers = (colour) => {
  const found = colour.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
  const scale = colour.startsWith("color(srgb") ? 255 : 1;
  return [found[0] * scale, found[1] * scale, found[2] * scale, found.length > 3 ? found[3] : 1];
};
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const light = (c) => {
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = c.slice(0, 3).map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  const layers = [];
  for (let up = element; up; up = up.parentElement) layers.unshift(numbers(getComputedStyle(up).backgroundColor));
  return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
};
const low = [];
for (const element of document.querySelectorAll("body *")) {
  const direct = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  if (!direct || !box.width || !box.height || style.visibility === "hidden") continue;
  if (["SCRIPT", "STYLE", "title", "desc"].includes(element.tagName)) continue;
  const under = ground(element);
  const ink = over(numbers(element instanceof SVGElement ? style.fill : style.color), under);
  const [bright, dim] = [light(ink), light(under)].sort((a, b) => b - a);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  const ratio = (bright + 0.05) / (dim + 0.05), needed = large ? 3 : 4.5;
  if (ratio < needed) low.push([element.textContent.trim().slice(0, 60), ratio.toFixed(2), needed]);
}
return low;
"""

# whether what stands at the middle of an element belongs to it
UNCOVERED = """
const box = arguments[0].getBoundingClientRect();
const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
return arguments[0].contains(there);
"""

# of every heading that sorts: by number or not, its column; after each of two presses aria-sort, others that sort, its
# column
PRESS = """
const values = (head) => [...head.closest("table").tBodies[0].rows].map((row) => row.cells[head.cellIndex])
  .map((cell) => cell.dataset.value ?? cell.textContent.trim());
const press = (head) => {
  head.querySelector("button").click();
  const sorting = head.closest("tr").querySelectorAll("[aria-sort=ascending], [aria-sort=descending]").length;
  return [head.getAttribute("aria-sort"), sorting - 1, values(head)];
};
return [...document.querySelectorAll("table.sortable th[data-sort]")]
  .map((head) => [head.dataset.sort === "number", values(head), press(head), press(head)]);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        missing = " and ".join(name for name, at in (("chromium", chromium), ("chromedriver", driver)) if at is None)
        reason = f"no {missing} on PATH: apt-get install chromium chromium-driver"
        if os.environ.get("ACCLIMATE_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))  # a Service with a path downloads nothing
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A study that shows all there is to show, with labels that nobody should have; one of numbers; one that was
    trained; one of pairs.
    """
    place = tmp_path_factory.mktemp("pages")
    nasty = studies.report_of_six(studies.race_of_six(NASTY), NASTY)
    trained = report.report_of(studies.recorded(Path(__file__).parent / "golden" / "run" / "race"))
    pages = {"six": nasty, "numbers": studies.report_of_numbers(), "trained": trained}
    page_of(studies.outcome_of_pairs(names=NAMES), matrix).write(place / "matrix.html")
    paths = {name: report.write_page(place / f"{name}.html", report.race_page(study)) for name, study in pages.items()}
    return {**paths, "matrix": place / "matrix.html"}


def opened(
    browser: webdriver.Chrome, page: Path, *, width: int = 1280, scheme: str = "light", media: str = "screen"
) -> webdriver.Chrome:
    """The browser with the page in a window of this width, every section unfolded."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(page.as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    return browser


def column(table: WebElement, place: int) -> list[str]:
    """What a table's column sorts by, from top to bottom."""
    script = """return [...arguments[0].tBodies[0].rows].map((row) => row.cells[arguments[1]])
                .map((cell) => cell.dataset.value ?? cell.textContent.trim())"""
    return table.parent.execute_script(script, table, place)


def in_view(browser: webdriver.Chrome, *selectors: str) -> None:
    """Check that nothing of these elements is beyond the window's or a scrolling frame's edge."""
    for selector in selectors:
        elements = browser.find_elements(By.CSS_SELECTOR, selector)
        assert elements, selector
        for element in elements:
            left, right, frame_left, frame_right = browser.execute_script(
                """const box = arguments[0].getBoundingClientRect(), frame = arguments[0].closest("[role=region]");
                   const edge = frame ? frame.getBoundingClientRect() : {left: 0, right: innerWidth};
                   return [box.left, box.right, Math.max(0, edge.left), Math.min(innerWidth, edge.right)]""",
                element,
            )
            assert frame_left - 1 <= left < right <= frame_right + 1, (selector, left, right, frame_right)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["six", "trained"])
def test_answer_command_plot_and_difference_are_seen_without_scrolling_sideways(browser, pages, name, width):
    opened(browser, pages[name], width=width)
    browser.execute_script("document.querySelectorAll('details').forEach((part) => { part.open = false; })")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    difference = [f"table.summary {cell}:nth-child(3)" for cell in ("th", "td")]
    in_view(browser, "h1.answer", "ul.lead li", ".next code span", f"{TOP} svg", *difference)
    tops = [
        browser.find_element(By.CSS_SELECTOR, selector).rect["y"]
        for selector in ("h1", ".next", "svg", "table", "summary")
    ]
    assert tops == sorted(tops)
    visible = [part for part in browser.find_elements(By.CSS_SELECTOR, "svg.plot, table") if part.is_displayed()]
    assert len(visible) == 2, "one plot and one table are not folded"
    browser.find_element(By.CSS_SELECTOR, "summary").click()
    assert browser.find_element(By.CSS_SELECTOR, "details").get_property("open")


@pytest.mark.parametrize("name", PAGES)
def test_it_loads_without_console_messages_and_without_a_request(browser, pages, name):
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what earlier tests left
    opened(browser, pages[name])
    assert browser.get_log("browser") == []
    events = "\n".join(entry["message"] for entry in browser.get_log("performance"))
    assert pages[name].name in events
    assert "http://" not in events.replace("http://www.w3.org/", "")
    assert "https://" not in events


def test_labels_that_look_like_markup_stay_text(browser, pages):
    opened(browser, pages["six"])
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 1  # ours
    assert not browser.find_elements(By.CSS_SELECTOR, "[onclick]")
    table = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=labels] table")
    visible = {cell.get_property("textContent") for cell in table.find_elements(By.CSS_SELECTOR, "tbody th")}
    assert visible == SHOWN
    confused = browser.find_element(By.CSS_SELECTOR, "table.confusion")
    assert {cell.get_attribute("title") for cell in confused.find_elements(By.CSS_SELECTOR, "[title]")} >= SHOWN


def test_every_sortable_column_sorts_both_ways(browser, pages):
    """Each heading is pressed twice; what stood in its column before, and after each press."""
    opened(browser, pages["six"])
    pressed = browser.execute_script(PRESS)
    assert len(pressed) >= 60
    for numbers, before, *presses in pressed:
        assert {way for way, _, _ in presses} == {"ascending", "descending"}
        for way, others, paths in presses:
            assert others == 0, "one column at a time says that it sorts"
            assert sorted(paths) == sorted(before), "no row is lost"
            filled = [value for value in paths if value]
            assert paths[: len(filled)] == filled, "cells without a value come last"
            if numbers:
                assert [float(value) for value in filled] == sorted(map(float, filled), reverse=way == "descending")
        if not numbers:
            up, down = (paths for _, _, paths in sorted(presses))
            assert up == down[::-1] or len(set(up)) < len(up)
            assert up != down or len(set(up)) == 1


@pytest.mark.parametrize("key", [Keys.ENTER, Keys.SPACE], ids=["enter", "space"])
def test_a_table_sorts_by_keyboard(browser, pages, key):
    opened(browser, pages["six"])
    table = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=labels] table")
    first, second = table.find_elements(By.CSS_SELECTOR, "th[data-sort] button")[:2]
    browser.execute_script("arguments[0].focus()", first)
    ActionChains(browser).send_keys(Keys.TAB).perform()  # by tab from one heading to the next
    assert browser.switch_to.active_element == second
    rows = column(table, 1)
    assert list(map(int, rows)) == sorted(map(int, rows), reverse=True)  # as the page is written
    for _ in range(2):
        ActionChains(browser).send_keys(key).perform()
    assert second.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    assert column(table, 1) == rows[::-1]
    assert browser.switch_to.active_element == second  # who sorts again need not look for the button


def test_the_skip_link_comes_first_and_shows_when_it_has_the_focus(browser, pages):
    opened(browser, pages["six"])
    link = browser.find_element(By.CSS_SELECTOR, "a.skip")
    assert link.rect["y"] + link.rect["height"] < 0
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element == link
    assert link.rect["y"] >= 0
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert browser.current_url.endswith("#contestants")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_it_fits_the_window_and_can_be_read(browser, pages, name, scheme, width):
    opened(browser, pages[name], width=width, scheme=scheme)
    wide, room = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room
    assert browser.execute_script(CONTRAST) == []
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(247, 247, 245)") == (scheme == "light")


def test_the_contrast_check_sees_what_is_too_pale(browser, pages):
    opened(browser, pages["numbers"])
    browser.execute_script("document.querySelector('h1').style.color = '#bbbbbb'")
    [[text, ratio, _]] = browser.execute_script(CONTRAST)
    assert text
    assert 1.0 < float(ratio) < 2.5


def test_paper_is_white_whatever_the_screen_is_and_nothing_runs_off_it(browser, pages):
    opened(browser, pages["six"], width=718, scheme="dark", media="print")  # A4 without the usual margins
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script(CONTRAST) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 718


@pytest.mark.parametrize("name", REPORTS)
def test_plots_show(browser, pages, name):
    opened(browser, pages[name], width=360)
    plots = browser.find_elements(By.CSS_SELECTOR, "svg.plot")
    assert len(plots) >= 4
    for plot in plots:
        assert plot.is_displayed()
        assert plot.rect["width"] >= 200
        assert plot.rect["height"] >= 60
        marks = browser.execute_script(
            """return [...arguments[0].querySelectorAll("path, use, text, line, circle")]
               .map((mark) => mark.getBoundingClientRect()).filter((box) => box.width + box.height > 0).length""",
            plot,
        )
        assert marks >= 10


@pytest.mark.parametrize("name", PAGES)
def test_it_can_be_heard(browser, pages, name):
    """What axe asks of a page: names, landmarks, headings in order, tables that say what they are."""
    opened(browser, pages[name])
    for selector in ("svg, img", "button", "a", "nav", "[role=region]", "summary"):
        for element in browser.find_elements(By.CSS_SELECTOR, selector):
            assert element.accessible_name.strip(), element.get_attribute("outerHTML")[:200]
    for landmark in ("header", "main", "footer", "h1"):
        assert len(browser.find_elements(By.TAG_NAME, landmark)) == 1
    levels = [int(head.tag_name[1]) for head in browser.find_elements(By.CSS_SELECTOR, "h1, h2, h3, h4, h5, h6")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for table in browser.find_elements(By.TAG_NAME, "table"):
        assert table.find_element(By.TAG_NAME, "caption").text.strip()
        assert not table.find_elements(By.CSS_SELECTOR, "th:not([scope])")
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"


@pytest.mark.parametrize("name", PAGES)
def test_what_scrolls_can_be_reached_by_keyboard(browser, pages, name):
    opened(browser, pages[name], width=360)
    scrolling = browser.execute_script(
        """return [...document.querySelectorAll("body *")]
           .filter((each) => each.scrollWidth > each.clientWidth + 1)
           .filter((each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX))
           .map((each) => [each.getAttribute("tabindex"), each.getAttribute("role"), each.className])"""
    )
    assert len(scrolling) >= 3
    assert {(tab, role) for tab, role, _ in scrolling} == {("0", "region")}


def test_a_page_of_a_run_reloads_and_leaves_the_reader_where_he_was(browser, tmp_path):
    page = tmp_path / "live.html"
    parts = tuple(Section(f"Part {part}", lines=("text",) * 9, items=("item",) * 9, fold="closed") for part in range(9))

    def write(title: str, reloads: int) -> None:
        sections = [Section("The plan", lines=("long",) * 99, parts=parts), Section("End", items=("line",) * 99)]
        Page("Race", title, sections, reloads=reloads).write(page)

    def until(title: str) -> None:
        WebDriverWait(browser, 30, poll_frequency=0.1).until(
            lambda each: title in each.execute_script("return document.querySelector('h1').textContent")
        )

    write("1 of 3", 1)
    opened(browser, page, width=360)
    browser.execute_script("const all = document.querySelectorAll('details'); all[0].open = false; scrollTo(0, 400)")
    write("2 of 3", 1)
    until("2 of 3")
    opens = "return [...document.querySelectorAll('details')].map((each) => each.open)"
    assert browser.execute_script(opens) == [False] + [True] * 8
    assert browser.execute_script("return scrollY") == 400
    write("ended", 0)
    until("ended")
    browser.execute_script("window.kept = true")
    time.sleep(1.5)
    assert browser.execute_script("return window.kept") is True, "the page of the end no longer reloads"


def test_the_page_of_a_run_can_be_read_at_both_widths(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "_versions", running_jobs.stated_versions)
    place = tmp_path / "report.html"
    with live.live_page("Race on topics", tmp_path, place, lambda progress: None) as watch:
        do_all([running_jobs.numbered(1), running_jobs.numbered(2)], tmp_path)
        for number, each in enumerate(sorted((tmp_path / "jobs").iterdir())):
            files.write_record(each / DEV_SCORES, [[10, 0.4], [20, 0.5 + number / 10]])
        scores = {"untouched": 0.6, "TAPT": 0.62}
        watch(Progress("round 1", 1, 1, "rounds", {"note": "complete", "scores": scores}))
        watch(Progress("count", 1, 9))
        for width, scheme in ((360, "dark"), (1280, "light")):
            opened(browser, place, width=width, scheme=scheme)
            assert "Running: 2 of the 2 jobs" in browser.find_element(By.TAG_NAME, "body").text
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            assert browser.execute_script(CONTRAST) == []
            plots = browser.find_elements(By.CSS_SELECTOR, "svg.plot")
            assert len(plots) == 2
            assert all(plot.rect["width"] >= 200 for plot in plots)
            in_view(browser, "h1", f"{TOP} svg", "table.summary th:nth-child(3)", "table.summary td:nth-child(3)")
    assert "All jobs are done" in opened(browser, place).find_element(By.TAG_NAME, "body").text


def test_without_scripts_everything_is_there_and_nothing_pretends_to_sort(browser, pages):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages["six"].as_uri())

        def asked(selector: str) -> list[list[int]]:
            document: dict[str, Any] = browser.execute_cdp_cmd("DOM.getDocument", {"depth": 0})
            about = {"nodeId": document["root"]["nodeId"], "selector": selector}
            return [browser.execute_cdp_cmd("DOM.querySelectorAll", about)["nodeIds"]]

        def paths(selector: str) -> int:
            # the number of a node does not outlast what the browser still does to the document: asked for again then
            again = WebDriverWait(browser, 10, ignored_exceptions=[WebDriverException])
            return len(again.until(lambda _: asked(selector))[0])

        assert paths("table.sortable tbody tr") > 50
        assert paths("svg.plot") >= 5
        assert paths("th button") == 0
        assert paths("[aria-sort]") == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def cells_of(browser: webdriver.Chrome, page: Path, **window: Any) -> list[WebElement]:
    """The links in the cells of the matrix, row by row."""
    return opened(browser, page, **window).find_elements(By.CSS_SELECTOR, "table.heat td a")


def told(browser: webdriver.Chrome) -> dict[str, str]:
    """What the box says of a cell, by its headings; empty where it does not show."""
    box = browser.find_element(By.ID, "detail")
    if not box.is_displayed():
        return {}
    names, values = (box.find_elements(By.TAG_NAME, name) for name in ("dt", "dd"))
    paths = {name.text: value.text for name, value in zip(names, values, strict=True)}
    return {"": box.find_element(By.TAG_NAME, "h3").text, **paths}


def contrasts() -> list[Contrast]:
    """What stands in the cells of the matrix, row by row."""
    outcome = studies.outcome_of_pairs(names=NAMES)
    paths = [outcome.compared.contrast(("", first, target), ALONE) for target in NAMES for first in (*NAMES, MORE)]
    return [each for each in paths if each is not None]


@pytest.mark.parametrize(("width", "how"), [(1280, "pointed at"), (360, "focused")])
def test_a_cell_that_is_pointed_at_or_focused_tells_its_comparison(browser, pages, how, width):
    links, cells = cells_of(browser, pages["matrix"], width=width), contrasts()
    assert len(links) == len(cells) == 12
    assert told(browser) == {}
    for link, cell in zip(links, cells, strict=True):
        if how == "focused":
            browser.execute_script("arguments[0].focus()", link)
        else:
            browser.execute_script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", link)
            ActionChains(browser).move_to_element(link).perform()
        paths = told(browser)
        _, first, target = cell.against.key
        assert all(name.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\\u202e") in paths[""] for name in (first, target))
        assert paths["verdict"] == cell.said
        assert f"{abs(100 * cell.comparison.difference):.1f} " in paths["difference"]
        box = browser.find_element(By.ID, "detail")
        assert box.rect["x"] >= 0
        assert box.rect["x"] + box.rect["width"] <= width
        assert browser.execute_script(UNCOVERED, link), "the box hides the cell that it tells of"


def test_arrows_go_from_cell_to_cell_and_escape_puts_the_box_away(browser, pages):
    links = cells_of(browser, pages["matrix"])
    browser.execute_script("arguments[0].focus()", links[0])
    keys = (Keys.ARROW_RIGHT, 1), (Keys.ARROW_DOWN, 5), (Keys.ARROW_LEFT, 4), (Keys.ARROW_UP, 0), (Keys.ARROW_LEFT, 0)
    for key, place in keys:
        ActionChains(browser).send_keys(key).perform()
        assert browser.switch_to.active_element == links[place]
    assert told(browser)
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert told(browser) == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_not_established_is_hatched_and_controls_are_outlined(browser, pages, scheme):
    links = cells_of(browser, pages["matrix"], scheme=scheme)
    cells = contrasts()
    assert {cell.established for cell in cells} == {True, False}
    for link, cell in zip(links, cells, strict=True):
        _, first, target = cell.against.key
        image, shadow = browser.execute_script(
            "const cell = getComputedStyle(arguments[0].closest('td')); return [cell.backgroundImage, cell.boxShadow]",
            link,
        )
        assert ("repeating-linear-gradient" in image) != cell.established
        assert (shadow != "none") == (first in (target, MORE))


def test_in_a_narrow_window_the_matrix_scrolls_beneath_its_targets(browser, pages):
    opened(browser, pages["matrix"], width=360)
    frame, head = browser.execute_script(
        """const table = document.querySelector("table.heat"), frame = table.closest("[role=region]");
           frame.scrollLeft = frame.scrollWidth;
           const box = (each) => { const at = each.getBoundingClientRect(); return [at.left, at.right, at.height]; };
           return [box(frame), box(table.tBodies[0].rows[1].cells[0])]"""
    )
    assert head[0] == pytest.approx(frame[0], abs=2)  # the name of the target stays
    assert head[1] < frame[1] - 60, "and leaves room for a cell"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
