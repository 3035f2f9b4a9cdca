set -e

# A run: each line that comes is an event of AG-UI.
curl -N http://127.0.0.1:8000/agents/assistant/run -H 'Content-Type: application/json' \
  -d '{"threadId": "t1", "runId": "r1", "messages": [{"role": "user", "content": "What was the population of Seattle in 2023?"}]}'

# A stream that broke off goes on behind the event that came last, here behind the third.
curl -N 'http://127.0.0.1:8000/runs/r1/events?after=3'

# The thread keeps what was said.
curl http://127.0.0.1:8000/threads/t1/messages
