"""How Sphinx builds these pages: `make docs`, or `python -m sphinx -W -b html docs build/docs`.

Notebooks are shown with the output that `-D nb_execution_mode=cache` gives them; without it nothing is executed.
"""

import importlib
import importlib.metadata
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

importlib.import_module("generate").write_all(HERE / "generated")

project = "azjax"
author = "the azjax authors"
release = version = importlib.metadata.version("azjax")

extensions = ["myst_nb"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# The last two are parts of other pages.
exclude_patterns = ["examples", "**.ipynb_checkpoints", "generated/cli/commands.md", "generated/networks.md"]
nb_execution_mode = "off"
nb_execution_timeout = 1800
nb_execution_raise_on_error = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # a widget's page is for Jupyter alone

html_theme = "sphinx_book_theme"
html_title = "azjax"
html_static_path = ["static"]
html_css_files = ["azjax.css"]
html_theme_options = {
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # there is a search in the sidebar
    "article_header_end": ["theme-switcher", "toggle-secondary-sidebar"],
}
html_copy_source = False
html_show_sourcelink = False
