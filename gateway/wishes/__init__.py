"""What a request may wish for its one run, in no protocol's and no provider's words.

generation.py  how the model is to generate: samplers, the answer's format, how much it thinks, what it calls
run_wishes.py  all that a request may wish; as JSON, for a run that outlives its process
"""
