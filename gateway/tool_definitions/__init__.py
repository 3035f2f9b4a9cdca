"""The definition of tools, for all kinds of tools.

parameters.py          the parameters that an operator wrote for a tool
hits.py                the hits of a search, as the model is shown them
neural_search.py       what the tools that search by meaning have in common
function_signature.py  a Python function's description for a model, and its arguments
"""
