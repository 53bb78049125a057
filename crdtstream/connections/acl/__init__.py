"""Users and what they may do: rules (selector.py, user.py), all users of a region (users.py), checks of a request
(checks.py), and the log of refusals (log.py).
"""
