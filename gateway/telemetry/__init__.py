"""Traces by OpenTelemetry's semantic conventions for generative AI, where they are installed and configured.

`export` reads the standard environment variables; `provider` and `spans` are OpenTelemetry behind the contracts of
`traces`: they alone know the foreign packages. `requests`, `model_calls` and `tool_calls` are put around the
application and its parts, where there is a tracer; `content` has messages as attributes, if the operator wants them.

The conventions: https://github.com/open-telemetry/semantic-conventions-genai (development status, September 2026).
"""
