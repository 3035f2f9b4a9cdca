"""The inside of the demo model, which is not a language model.

word_matching.py  which of the offered tools a user's words ask for, and with what arguments
"""
