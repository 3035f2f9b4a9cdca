"""A thread's messages as a history.

merging         merges a client's history with the stored one
recognition     finds the stored messages in a history without their ids
model_view      the messages as a model may be shown them
versions        whether a history goes on with its version or makes another
context_limits  makes a history fit a model's context
cache           keeps the last request's results for the next one
"""
