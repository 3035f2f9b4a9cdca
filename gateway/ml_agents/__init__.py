"""ml-commons' agents over its REST API: register, show, change and execute them; tasks; tools without an agent.

agent_form.py       the members of an agent that its users see, beyond those that runs need
registration.py     the bodies that register and change an agent, with registration_members, registration_model and
                    registration_tools for their parts
generation_options.py  generation options, in any vendor's spelling
parameters.py       the parameters of an execution
agent_input.py      the body of an execution as canonical input
execution_start.py  an execution's run: its memory, its interaction, its tools
execution.py        the answer of an execution
chunks.py           the same as a stream
tasks.py            executions that nobody waits for

The routes, and the protocols as parts: agent_endpoints.py, execute_endpoints.py, task_endpoints.py and
tool_endpoints.py.

Above: `protocols/ml_stream.py`. Below: ml_memory, ml_commons, protocol. All of it is pure, but for the routes and
`execution_start.py`.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/index/ (ml-commons 3.6 to 3.9)
"""
