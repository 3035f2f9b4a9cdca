import { useInterrupt } from "@copilotkit/react-core/v2";

export function Approval() {
  useInterrupt({
    agentId: "assistant",
    render: ({ interrupt, resolve, cancel }) => (
      <section aria-label="Approval">
        <p>{interrupt?.message}</p>
        <button onClick={() => resolve({ approved: true })}>Approve</button>
        <button onClick={() => resolve({ approved: true, editedArgs: { order_id: "1234", amount: 10 } })}>Edit</button>
        <button onClick={() => resolve({ approved: false, reason: "not today" })}>Deny</button>
        <button onClick={() => cancel()}>Cancel</button>
      </section>
    ),
  });
  return null;
}
