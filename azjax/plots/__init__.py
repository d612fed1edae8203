"""Every figure: curves, tables of a run, and its report."""
