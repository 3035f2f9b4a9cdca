import os

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key=os.environ["ALICE_KEY"])
print([model.id for model in client.models.list()])
stream = client.chat.completions.create(
    model="assistant",
    stream=True,
    messages=[{"role": "user", "content": "What was the population of Seattle in 2023?"}],
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
