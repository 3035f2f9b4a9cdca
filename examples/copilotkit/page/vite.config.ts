// the page asks CopilotKit's runtime, which runs beside Vite
export default { server: { proxy: { "/api/copilotkit": "http://127.0.0.1:3000" } } };
