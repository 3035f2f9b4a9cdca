import os

from opensearchpy import OpenSearch

client = OpenSearch(hosts=["http://127.0.0.1:8000"], http_auth=("alice", os.environ["ALICE_KEY"]))
ml = "/_plugins/_ml"

body = {"parameters": {"question": "What was the population of Seattle in 2023?"}}
answer = client.transport.perform_request("POST", f"{ml}/agents/assistant/_execute", body=body)
output = {each["name"]: each for each in answer["inference_results"][0]["output"]}
print(output["response"]["dataAsMap"]["response"])

memory_id = output["memory_id"]["result"]
messages = client.transport.perform_request("GET", f"{ml}/memory/{memory_id}/messages")
print(messages["messages"][0]["input"])
