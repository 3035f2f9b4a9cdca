"""A thread's messages as a history.

merging         merges a client's history with the stored one
recognition     finds the stored messages in a history without their ids
model_view      the messages in the form that every provider accepts
versions        whether a history continues its version or makes a new one
context_limits  makes a history fit a model's context
cache           keeps the last request's results for the next request
"""
