"""How tools are defined, whatever kind they are.

parameters.py          what an operator wrote for a tool
function_signature.py  a Python function's description for a model, and its arguments
"""
