"""One module a command of `azjax`, each with `run(arguments)`; `azjax.cli` finds them by name."""
