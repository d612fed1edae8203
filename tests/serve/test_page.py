"""The page in a real browser: Debian's Chromium, driven by Playwright; skipped where there is none."""

import json
import re
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="no browser tests: playwright is not installed"
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no browser tests: there is no Chromium (Debian: chromium)"
)
expect = playwright.expect

SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
FAINT = """() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (c) => {
    const [r, g, b] = c.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("h2, p, td, th button, label, output, button, summary, #ply")) {
    if (!one.offsetParent || !one.textContent.trim() || one.disabled) continue;
    const both = [light(rgb(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    const contrast = (both[0] + 0.05) / (both[1] + 0.05);
    if (contrast < 4.5) found.push(`${one.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""
PATIENCE = 60_000  # milliseconds: the first search of each kind is compiled


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """(hash, viewport, scheme) -> the page, ready; fails at the end if it has met an error."""
    contexts, errors = [], []

    def open_at(hash_="", width=1280, height=860, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/{hash_}")
        page.wait_for_selector("[data-ready]", state="attached")
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert errors == []


def click(page, *places):
    for place in places:
        for again in (True, True, True, False):
            try:
                page.click(f'#board [data-place="{place}"]', position=None, force=True)
                break
            except playwright.Error as error:  # the board was drawn anew before the click, which was not made
                if not (again and "not visible" in str(error)):
                    raise


def both_sides(page):
    page.click('[data-side="both"]')


def at_ply(page, text):
    expect(page.locator("#ply")).to_have_text(text, timeout=PATIENCE)


def test_a_game_of_hex_is_played_by_clicking_and_moves_are_taken_back(open_page):
    page = open_page("#game=hex&size=3")
    both_sides(page)
    for ply, place in enumerate([4, 0, 1, 3], start=1):
        click(page, place)
        at_ply(page, f"{ply} / {ply}")
    page.click("#undo")
    at_ply(page, "3 / 3")
    for ply, place in enumerate([8, 7], start=4):  # b1, b2 and b3 join top and bottom
        click(page, place)
        at_ply(page, f"{ply} / {ply}")
    expect(page.locator("#turn")).to_have_text("Black has won")
    assert page.locator("#board .tint0").count() == 3
    click(page, 2)  # nothing happens any more
    at_ply(page, "5 / 5")


def test_clicks_that_come_before_the_last_move_is_shown_change_nothing(open_page):
    page = open_page("#game=hex&size=3")
    both_sides(page)
    page.evaluate("""() => {
      const places = [4, 0].map((i) => document.querySelector(`#board [data-place="${i}"]`));
      for (const place of places) place.dispatchEvent(new MouseEvent("click"));
    }""")
    at_ply(page, "1 / 1")
    expect(page.locator("#status.wrong")).to_have_count(0)


def test_swap_is_a_button_where_the_game_has_it(open_page):
    page = open_page("#game=hex&size=3&swap=true")
    both_sides(page)
    click(page, 1)
    page.click("#moves-buttons button")
    at_ply(page, "2 / 2")
    # The stone of b1 has given way to a white one on the transposed cell, a2.
    assert page.locator('#board [data-place="3"] .stone1').count() == 1
    assert page.locator("#board .stone").count() == 1


def test_a_game_of_dots_and_boxes_is_played_by_clicking(open_page):
    page = open_page("#game=dots_and_boxes&rows=1&columns=1")
    both_sides(page)
    for ply, line in enumerate(range(4), start=1):
        click(page, line)
        at_ply(page, f"{ply} / {ply}")
    expect(page.locator("#turn")).to_have_text("B has won")  # the fourth line takes the box
    expect(page.locator("#player1 .score")).to_have_text("1")


def test_a_game_of_chinese_checkers_is_played_by_taking_up_pieces(open_page):
    page = open_page("#game=chinese_checkers&size=3&pieces=1")
    both_sides(page)
    # A piece each, from tip to tip of 3x3; the cells of the middle row are 3, 4 and 5.
    for ply, (start, end) in enumerate([(0, 1), (8, 7), (1, 3), (7, 5), (3, 6), (5, 2), (6, 8)], start=1):
        click(page, start)
        goals = page.locator("#board .goal")
        expect(goals).to_have_count(page.locator("#board .place.open").count())
        assert page.locator(f'#board [data-place="{end}"] .goal').count() == 1
        click(page, end)
        expect(goals).to_have_count(0)
        at_ply(page, f"{ply} / {ply}")
    expect(page.locator("#turn")).to_have_text("a has won")


def test_board_games_of_pgx_are_played_too(open_page):
    page = open_page("#game=tic_tac_toe")
    both_sides(page)
    for ply, place in enumerate([0, 3, 1, 4, 2], start=1):
        click(page, place)
        at_ply(page, f"{ply} / {ply}")
    expect(page.locator("#turn")).to_have_text("First has won")


def test_a_game_without_places_is_played_by_its_list_of_moves(open_page):
    page = open_page("#game=gardner_chess")
    both_sides(page)
    assert page.locator("#board image").count() == 1 and page.locator("#moves-buttons button").count() == 7
    page.locator("#moves-buttons button").first.click()
    at_ply(page, "1 / 1")


def test_an_agent_answers_gives_hints_and_a_game_can_be_resigned(open_page):
    page = open_page("#game=hex&size=3")
    page.fill("#opponent", "uct:3")
    page.press("#opponent", "Enter")
    click(page, 4)
    at_ply(page, "2 / 2")
    page.click("#hint")
    expect(page.locator("#status")).to_have_text(re.compile("hint: [abc][123]"), timeout=PATIENCE)
    assert page.locator("#board .star").count() == 1
    page.click("#undo")
    at_ply(page, "0 / 0")
    page.click("#resign")
    expect(page.locator("#turn")).to_have_text("White wins: Black has resigned")
    page.click('[data-view="analyse"]')  # where what might have come is looked at
    click(page, 0)
    at_ply(page, "1 / 1")


def test_a_game_of_the_address_is_taken_back_to_where_the_person_was_to_move(open_page):
    page = open_page("#game=hex&size=3&moves=b2,a1,c3,c1")
    page.fill("#opponent", "uct:3")
    page.press("#opponent", "Enter")
    page.click('[data-side="1"]')  # so that the agent plays the fifth move
    at_ply(page, "5 / 5")
    page.click("#undo")
    at_ply(page, "3 / 3")


def test_what_search_expects_is_shown_on_the_board(open_page):
    page = open_page("#game=hex&size=3&view=analyse")
    page.wait_for_selector("tr.best")
    expected = page.inner_text("#pv").split()[1:]
    assert len(expected) > 1
    page.hover("tr.best")
    ghosts = page.locator("#board .ghost .stone")
    expect(ghosts).to_have_count(len(expected))
    assert page.locator("#board .ghost text").all_text_contents() == [
        str(i + 1) for i in range(len(expected))
    ]
    page.hover("#verdict")
    expect(ghosts).to_have_count(0)


def test_network_search_and_truth_stand_side_by_side_and_a_blunder_is_marked(open_page):
    # The first player wins Hex; of 3x3 the corner a1 loses, so that it gives the win away.
    page = open_page("#game=hex&size=3&moves=a1,b2,c1&view=analyse")
    page.fill("#analyst", "az:tiny")
    page.press("#analyst", "Enter")
    page.wait_for_selector("tr.best")
    page.wait_for_selector("#thoughts td.won")
    board = page.locator("#board")
    for layer, sign in (("network", ".heat"), ("search", ".visits"), ("truth", ".verdict")):
        assert board.locator(sign).count() > 0
        page.click(f'[data-layer="{layer}"]')
        expect(board.locator(sign)).to_have_count(0)
        page.click(f'[data-layer="{layer}"]')
    page.wait_for_selector("#branches .blunder")
    assert page.locator("#branches .blunder").first.inner_text() == "1. a1 ?!"
    for name in ("network", "search", "truth"):
        assert (
            page.locator(f'[role="meter"][aria-label^="{name}"]').get_attribute("aria-valuenow") is not None
        )
    page.click("#branches .blunder")
    expect(page.locator("#comment")).to_contain_text("Black had a won position and now has a lost position")
    expect(page.locator("#comment")).to_contain_text("b2")
    page.click("#again")
    at_ply(page, "0 / 3")
    click(page, 4)  # another way: a branch
    at_ply(page, "1 / 1")
    expect(page.locator("#branches .branch")).to_have_count(1)
    expect(page.locator("#verdict")).to_contain_text("White loses", timeout=PATIENCE)
    expect(page.locator("#graph .truth")).to_have_count(1)


def test_the_table_is_sorted_by_its_heads_and_the_checkpoint_slider_changes_what_the_network_knew(open_page):
    page = open_page("#game=hex&size=3&view=analyse")
    page.fill("#analyst", "az:tiny")
    page.press("#analyst", "Enter")
    page.wait_for_selector("tr.best")
    page.click("#thoughts th button:text-is('P')")
    shares = [float(text.split()[0]) for text in page.locator("#thoughts td:nth-child(2)").all_inner_texts()]
    assert len(shares) == 9 and shares == sorted(shares, reverse=True)
    expect(page.locator("#checkpoint-out")).to_have_text("what it knew after 30 s")
    page.focus("#checkpoint")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#checkpoint-out")).to_have_text("what it knew after 10 s")
    first = page.locator("#thoughts tbody tr").first
    expect(first.locator("td:nth-child(2)")).not_to_have_text(f"{shares[0]:.1f} %", timeout=PATIENCE)


def test_the_search_is_stepped_through_simulation_by_simulation(open_page):
    page = open_page("#game=hex&size=3&view=analyse")
    page.wait_for_selector("tr.best")
    page.click("#steps-box summary")
    page.wait_for_selector("#sim-tree circle")
    assert page.locator("#sim-tree circle").count() == 2
    page.click("#sim-forward")
    expect(page.locator("#sim-tree circle")).to_have_count(3, timeout=PATIENCE)
    assert page.locator("#sim-tree .new").count() == 1


def test_a_pasted_game_is_set_up_and_the_address_brings_it_back(open_page):
    page = open_page("#game=hex&size=3")
    both_sides(page)
    page.click("#setup summary")
    page.fill("#paste", "(;GM[11]SZ[4];B[a1];W[b2];B[d4])")
    page.click("#take")
    at_ply(page, "3 / 3")
    assert "size=4" in page.url and page.locator("#board .stone").count() == 3
    again = open_page(page.url[page.url.index("#") :])
    at_ply(again, "3 / 3")
    page.fill("#paste", "nonsense")
    page.click("#take")
    expect(page.locator("#status.wrong")).to_contain_text("no position")


def test_everything_can_be_done_from_the_keyboard(open_page):
    page = open_page("#game=hex&size=3")
    both_sides(page)
    page.focus("#board svg")
    page.keyboard.press("ArrowRight")  # to the middle, where the cursor begins
    page.keyboard.press("Enter")
    at_ply(page, "1 / 1")
    assert page.locator('#board [data-place="4"] .stone0').count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    at_ply(page, "2 / 2")
    assert page.locator('#board [data-place="5"] .stone1').count() == 1
    assert "c2" not in page.locator("#board svg").get_attribute("aria-label")
    page.locator("#board svg").evaluate("board => board.blur()")
    page.keyboard.press("ArrowLeft")
    at_ply(page, "1 / 2")
    page.keyboard.press("End")
    at_ply(page, "2 / 2")
    page.keyboard.press("a")
    expect(page.locator("#analyse-panel")).to_be_visible()


def test_the_focus_stays_where_it_was_when_things_are_drawn_anew(open_page):
    page = open_page("#game=hex&size=3&view=analyse")
    page.wait_for_selector("tr.best")
    page.focus("#thoughts th button:text-is('N')")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "N"
    assert page.locator("#thoughts th").nth(2).get_attribute("aria-sort") == "descending"
    page.focus('#thoughts tr[data-key="5"]')
    page.keyboard.press("1")  # draws the board and the table without the network
    assert page.evaluate("document.activeElement.dataset.key") == "5"
    page.keyboard.press("Enter")  # plays it
    at_ply(page, "1 / 1")
    assert page.evaluate("document.activeElement.closest('#thoughts') !== null")


def test_arrow_keys_choose_among_sides_and_views(open_page):
    page = open_page("#game=hex&size=3")
    page.focus('[data-side="0"]')
    page.keyboard.press("ArrowLeft")  # round to the last one, with which agents play
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.side") == "both"
    assert page.locator('[data-side="both"]').get_attribute("aria-checked") == "true"
    page.focus('[data-view="play"]')
    page.keyboard.press("ArrowRight")
    expect(page.locator("#analyse-panel")).to_be_visible()
    assert page.evaluate("document.activeElement.dataset.view") == "analyse"


def test_addresses_lead_to_their_view_and_to_play_without_one(open_page):
    page = open_page("#game=hex&size=3&view=nonsense")
    expect(page.locator("#play-panel")).to_be_visible()
    page.evaluate("location.hash = '#game=hex&size=3&view=analyse'")
    expect(page.locator("#analyse-panel")).to_be_visible()
    page.evaluate("location.hash = '#game=hex&size=2'")
    expect(page.locator("#play-panel")).to_be_visible()
    assert "size=2" in page.url


@pytest.mark.parametrize("view", ["play", "analyse", "watch", "suites"])
def test_everything_fits_a_phone(open_page, view):
    page = open_page(f"#game=hex&size=5&view={view}", width=390, height=780)
    wide = page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= 390
    if view == "play":
        box = page.locator("#board svg").bounding_box()
        assert box["width"] > 250 and box["y"] + box["height"] < 780
        both_sides(page)
        page.locator('#board [data-place="12"]').click()
        at_ply(page, "1 / 1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_have_names_and_texts_have_contrast(open_page, scheme):
    page = open_page("#game=hex&size=3&moves=b2,a1&view=analyse", scheme=scheme)
    page.wait_for_selector("tr.best")
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, input, select, textarea")].filter((one) =>
        !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length || one.closest("label")))
        .map((one) => one.outerHTML)""")
    assert nameless == []
    # WCAG 2: at least 4.5 to 1 for text. Colours may be given in other spaces: a canvas turns them into numbers.
    faint = page.evaluate(FAINT)
    assert faint == []


def test_wrong_answers_of_a_suite_are_clicked_through(open_page, server, tmp_path):
    path = tmp_path / "wrong.jsonl"  # a1 loses, so that a perfect player is wrong here
    path.write_text(json.dumps({"game": "hex", "size": 2, "moves": [], "optimal": ["a1"]}) + "\n")
    server.suites = (str(path),)
    page = open_page("#game=hex&size=3&view=suites")
    page.select_option("#suite", str(path))
    page.fill("#suite-agent", "perfect")
    page.click("#ask")
    expect(page.locator("#suite-result")).to_contain_text("0.0 % of 1 positions right", timeout=PATIENCE)
    page.click(".answer")
    expect(page.locator("#verdict")).to_have_text("Truth: Black wins, with 2 of 4 moves.", timeout=PATIENCE)
    assert "size=2" in page.url and "view=analyse" in page.url


def test_two_runs_are_compared_curve_by_curve(open_page, run_folder):
    shutil.copytree(run_folder / "tiny", run_folder / "other")
    try:
        page = open_page("#game=hex&size=3&view=watch")
        page.wait_for_selector(".chart")
        page.locator(".card", has_text="tiny").click()
        loss = page.locator(".chart", has=page.locator("h2:text-is('loss')"))
        expect(loss.locator(".legend > span")).to_have_count(4)
        assert loss.locator(".legend").inner_text().count("tiny: ") == 2
        of_curves = loss.locator("polyline").evaluate_all(
            "all => all.map((one) => [one.getAttribute('stroke'), one.getAttribute('stroke-dasharray') !== ''])"
        )
        # Policy and value of one run, then of the other: the same two colours, the second time dashed.
        (policy, _), (value, _) = of_curves[:2]
        assert policy != value
        assert of_curves == [[policy, False], [value, False], [policy, True], [value, True]]
    finally:
        shutil.rmtree(run_folder / "other")


def test_runs_are_watched_and_play_against_themselves(open_page):
    page = open_page("#game=hex&size=3&view=watch")
    page.wait_for_selector(".chart")
    titles = [title.lower() for title in page.locator(".chart h2").all_inner_texts()]
    assert titles == ["strength", "truth", "loss"]
    expect(page.locator(".card")).to_contain_text("iteration 3 of 5")
    expect(page.locator(".card")).to_contain_text("20 s left")  # 10 s each, as its metrics say
    expect(page.locator("#replay-open")).to_be_hidden()
    page.click("#selfplay")
    expect(page.locator("#selfplay-note")).to_contain_text("moves by the newest weights", timeout=PATIENCE)
    assert page.locator("#replay-board .stone").count() >= 5  # fewer do not join two sides of 3x3
