"""How tools are defined, whatever kind they are.

parameters.py          what an operator wrote for a tool
function_signature.py  what a Python function tells a model, and how it is called
"""
