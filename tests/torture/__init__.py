"""Faults that a user may meet, tried in numbers: `make torture`.

zygote.py     commands in forked children of one process that has everything imported
victims.py    small inputs, and a command of each verb that writes
faults.py     the list of faults: what each does, what is promised, and how it is checked
strangers.py  files, models and settings from strangers: mutated inputs and payloads
page.py       docs/reliability.md, made of the list and of the last recorded results
"""
