"""`azjax report RUN`: draw a run's curves, a game and the opening heat map again."""

from rich.console import Console

from azjax import checkpoint, report


def run(arguments: list[str]) -> None:
    """Draws the report of a run anew."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print("usage: azjax report RUN, where RUN is the folder of a run")
        return
    finished = checkpoint.open_run(arguments[0])
    page = report.write(finished)
    console = Console()
    report.summarise(finished, console)
    console.print(f"The report is in {page}.")
