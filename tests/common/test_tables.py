"""Tables of results: text of at most 80 columns, and HTML that shows the same."""

import re

from azjax.common import tables


def test_words_begin_on_the_left_and_numbers_end_on_the_right():
    grid = tables.Grid(("player", "games"), [("a", "10"), ("longer", "5")], title="who", notes=("so far",))
    assert grid.text().splitlines() == ["who", "player  games", "a          10", "longer      5", "so far"]


def test_a_long_word_is_cut_and_columns_that_do_not_fit_are_left_out():
    grid = tables.Grid(("player", "games"), [("x" * 200, "12345")])
    lines = grid.text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].endswith("…  12345")
    wide = tables.Grid([str(number) for number in range(40)], [["9999"] * 40])
    assert all(len(line) <= 80 and line.endswith("…") for line in wide.text().splitlines())
    assert len(wide.text(width=None).splitlines()[1]) == 40 * 6 - 2


def test_html_shows_every_cell_and_no_markup_of_a_name():
    grid = tables.Grid(("player", "games"), [("<b>", "1")], title="a & b", pictures=("<svg/>",))
    page = grid.html()
    assert re.findall("<t[hd][^>]*>(.*?)</t[hd]>", page) == [
        "player",
        "games",
        "",
        "&lt;b&gt;",
        "1",
        "<svg/>",
    ]
    assert "<caption>a &amp; b</caption>" in page


def test_a_little_curve_goes_from_the_lowest_to_the_highest():
    points = re.search('points="([^"]*)"', tables.sparkline([1, 3, 2], width=104, height=24))[1]
    assert points == "2.0,22.0 52.0,2.0 102.0,12.0"
    assert tables.sparkline([1]) == ""
    assert "nan" not in tables.sparkline([5, 5])


def test_long_titles_and_notes_go_on_in_the_next_line():
    title = f"az:{'folder/' * 15} against random"
    grid = tables.Grid(("player", "games"), [("a", "10")], title=title, notes=("word " * 30,))
    lines = grid.text(80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "against random" in lines[1]
    assert sum(line.count("word") for line in lines) == 30
