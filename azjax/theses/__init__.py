"""The theses, one file each: networks, constants, published quirks and presets, by author and year.

Whoever imports this knows all presets by name, the quick ones of `training` too: this is where to ask for one.
"""

from azjax.common.preset_list import DESCRIPTIONS
from azjax.theses import alphago_zero, daliri2022, jacobsen2019, karki2024, kromann2019, peters2018
from azjax.training.presets import describe, preset, preset_names, register_preset

for _thesis in (daliri2022, jacobsen2019, karki2024, peters2018):
    for _name, _make in _thesis.PRESETS.items():
        _on = jacobsen2019.ON_BOARDS.get(_name)
        register_preset(
            _name, DESCRIPTIONS[_name], _make, on_game=_on and (lambda game, on=_on: on(game.size))
        )

__all__ = [
    "alphago_zero",
    "daliri2022",
    "describe",
    "jacobsen2019",
    "karki2024",
    "kromann2019",
    "peters2018",
    "preset",
    "preset_names",
    "register_preset",
]
