"""How Sphinx builds these pages: `python -m sphinx -W -b html docs build/docs`."""

import importlib.metadata

project = "azjax"
author = "the azjax authors"
release = version = importlib.metadata.version("azjax")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["examples"]

html_theme = "alabaster"
html_theme_options = {
    "description": "An AlphaZero laboratory in JAX",
    "fixed_sidebar": True,
    "page_width": "1100px",
}
html_copy_source = False
html_show_sourcelink = False
