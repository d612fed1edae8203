"""Tables of results: text of at most 80 columns, and HTML that shows the same."""

import re

from azjax.common import tables


def test_words_begin_on_the_left_and_numbers_end_on_the_right():
    grid = tables.Grid(("player", "games"), [("a", "10"), ("longer", "5")], title="who", notes=("so far",))
    assert grid.text().splitlines() == ["who", "player  games", "a          10", "longer      5", "so far"]


def test_a_long_name_goes_on_in_the_next_line_and_nothing_is_lost():
    grid = tables.Grid(("player", "games"), [("x" * 200, "12345"), ("several words in a row " * 6, "6")])
    lines = grid.text().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.count("x") for line in lines) == 200 and lines[1].endswith("x  12345")
    assert sum(line.count("several") for line in lines) == 6  # words stay whole


def test_numbers_that_do_not_fit_stand_in_further_tables_below():
    wide = tables.Grid(["name", *(str(number) for number in range(40))], [["a", *["9999"] * 40]])
    parts = wide.text().split("\n\n")
    assert all(len(line) <= 80 for part in parts for line in part.splitlines())
    assert all(part.startswith("name  ") and part.splitlines()[1].startswith("a     ") for part in parts)
    assert " ".join(parts).split().count("9999") == 40
    assert [word for part in parts for word in part.splitlines()[0].split()[1:]] == [
        str(n) for n in range(40)
    ]
    assert len(wide.text(width=None).splitlines()) == 2


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
