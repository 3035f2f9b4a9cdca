"""Gemini's generateContent, at the Gemini API and at Vertex AI.

generate_content.py  facts of its wire: reasons, counts, addresses, schemas
options.py           writes a run's options
request.py           writes a model request
reader.py            reads an answer
"""
