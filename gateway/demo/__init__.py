"""The inside of the demo model, which is not a language model.

situation.py      the facts by which it chooses
word_matching.py  finds the tools that a user's words ask for, and their arguments
results.py        reads the results of tools
phrases.py        its texts
plan.py           plans its calls of tools, or its answer
"""
