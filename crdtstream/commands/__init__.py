"""Redis commands: a module for each family, a function and a row of its table for each command.

`table.py` joins the families, `dispatch.py` finds a command and runs it, `fitting.py` refuses what no batch could hold.
"""
