"""The options that a request sets for its one run, independent of any protocol and provider.

generation.py   the options of a model's answer: samplers, format, reasoning, the calls that it has to make
run_options.py  all options of a run; as JSON, for a run that outlives its process
"""
