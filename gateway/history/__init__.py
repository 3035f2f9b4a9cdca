"""A thread's messages as a history.

merging         what a request makes of it: who wins where client and server differ
model_view      what a model may be shown of it
context_limits  making it fit a model's context
cache           what the last request made of it, kept for the next one
"""
