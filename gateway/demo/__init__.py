"""The inside of the demo model, which is not a language model.

situation.py      what it knows when it chooses
word_matching.py  which of the offered tools a user's words ask for, and with what arguments
results.py        reads the results of tools
phrases.py        what it says
plan.py           which tools it calls, or what it answers
"""
