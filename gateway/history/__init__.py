"""A thread's messages as a history.

merging         merges a client's history with the stored one
model_view      the messages as a model may be shown them
context_limits  makes a history fit a model's context
cache           keeps the last request's results for the next one
"""
