"""Whatever picks a move, and the one text form that names any of them (`make_agent`)."""
