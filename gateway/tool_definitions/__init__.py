"""The definition of tools, for all kinds of tools.

parameters.py          the parameters that an operator wrote for a tool
function_signature.py  a Python function's description for a model, and its arguments
"""
