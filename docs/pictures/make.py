"""Makes the pictures of the page: `python docs/pictures/make.py RUNS`, with RUNS a folder that holds a run `hex3`.

The run is that of `azjax train hex3 --save-every 5 --out RUNS/hex3`. Needs Chromium, and Playwright of the dev extra.
"""

import pathlib
import shutil
import sys
import threading
import time

import uvicorn
from playwright import sync_api as playwright

from azjax.common import cache
from azjax.envs import Hex
from azjax.serve.app import Server, make_app
from azjax.serve.runs import Folders

HERE = pathlib.Path(__file__).parent
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
QUIET = "() => !document.getElementById('status').classList.contains('busy')"
PATIENCE = 300_000  # milliseconds: programs are compiled, and a table may be solved


def main(runs: str) -> None:
    """Serves the runs and takes all pictures."""
    cache.keep_compiled_programs()
    server = Server(Folders([runs]), Hex(size=3))
    listening = uvicorn.Server(uvicorn.Config(make_app(server), port=0, log_level="error"))
    thread = threading.Thread(target=listening.run)
    thread.start()
    while not listening.started:
        time.sleep(0.01)
    port = listening.servers[0].sockets[0].getsockname()[1]
    try:
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
            take_all(browser, f"http://127.0.0.1:{port}/")
            browser.close()
    finally:
        listening.should_exit = True
        thread.join()


def take_all(browser: playwright.Browser, address: str) -> None:
    """One picture after the other, each of a page of its own."""

    def opened(view: str, place: str, width: int = 1240, height: int = 860) -> playwright.Page:
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce"
        )
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}#{place}&view={view}")
        return page

    def analysed(place: str, **size: int) -> playwright.Page:
        page = opened("analyse", place, **size)
        page.wait_for_selector("tr.best")
        page.wait_for_selector("#verdict.won, #verdict.lost, #verdict.even")
        page.wait_for_selector("#graph .truth[d]")
        return page

    def take(page: playwright.Page, name: str, full_page: bool = True) -> None:
        page.wait_for_timeout(1000)  # the rest of the game is analysed behind what is shown
        page.wait_for_function(QUIET)
        page.screenshot(path=HERE / f"{name}.png", full_page=full_page)
        page.close()

    page = analysed("game=hex&size=3&moves=a1,b2,a2")
    page.focus("#checkpoint")
    page.keyboard.press("Home")
    take(page, "serve-analyse")

    take(analysed("game=hex&size=3&moves=a1"), "serve-blunder")
    take(analysed("game=chinese_checkers&size=4&pieces=3&moves=0-5,15-12,1-4,14-11"), "serve-checkers")
    take(analysed("game=hex&size=3&moves=a1", width=390, height=844), "serve-phone", full_page=False)

    page = opened("watch", "game=hex&size=3")
    page.wait_for_selector(".chart")
    page.select_option("#axis", "1")
    take(page, "serve-watch")

    page = opened("suites", "game=hex&size=3")
    page.select_option("#suite", "hex5")
    page.fill("#suite-agent", "uct:50")
    page.click("#ask")
    page.wait_for_selector(".answer")
    take(page, "serve-suites", full_page=False)


if __name__ == "__main__":
    main(sys.argv[1])
