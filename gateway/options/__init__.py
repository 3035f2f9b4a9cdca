"""The options that a request sets for its one run, in no protocol's and no provider's words.

generation.py  how the model is to generate: samplers, the answer's format, how much it thinks, what it calls
run_options.py  all options of a run; as JSON, for a run that outlives its process
"""
