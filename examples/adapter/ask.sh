set -e

# The whole answer at once, as JSON.
curl http://127.0.0.1:8000/ask -H 'Content-Type: application/json' -d '{"question": "What was the population of Seattle in 2023?"}'

# The words as they come.
curl -N http://127.0.0.1:8000/ask/words -H 'Content-Type: application/json' -d '{"question": "What was the population of Seattle in 2023?"}'
