"""A model request in the words of each API, one file each: pure functions from a `ModelRequest` to a body.

Named as the models that send them (`models/`). Above: those models, and what the models of the Responses API share.
Below: model (the request), messages; the wires' facts are in `wire/`.
"""
