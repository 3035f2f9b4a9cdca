/** English: what only the page says, which has more around the chat than the widget. */
export const pageEnglish = {
  // The sides
  theme: "Theme",
  agent: "Agent",
  themeAuto: "As the system",
  themeLight: "Light",
  themeDark: "Dark",
  key: "Key",
  keyHint: "It is kept until you close this tab.",
  keyChange: "Change the key",
  keyUse: "Use this key",
  keyForget: "Forget the key",
  keyWrong: "The server does not know this key.",
  api: "API",
  noAgents: "This gateway has no agents yet. Add one to its configuration file, and start it again.",
  agentGone:
    "The agent of this conversation is no longer there. {agent} answers what you say now; another one can be chosen above.",

  // The demonstration
  demo: "Demo model",
  demoMore: ", not an LLM",
  demoNote: "The demo model matches words; it is not a language model.",
  demoLink: "Put a real one behind it",
  realModel: "Put a real model behind it",
  realModelWhy:
    "The answers here come from the **demo model**: rules that pick tools by the words of the question. It is there so that everything can be seen without a key. To talk to a language model, write the demonstration’s configuration into a file:",
  realModelChoose:
    "Put a model in place of the demo model: any that speaks OpenAI’s chat completions (OpenAI, Ollama, vLLM, …), or Claude, Gemini, or one on Amazon Bedrock:",
  realModelServe: "Then check it, and serve it:",

  // The form
  form: "This page’s form",
  showForm: "Show the form",
  bookTitle: "Book a table",
  bookHint: "A form of this page. Fill it in, or let the agent do it.",
  bookName: "Name",
  bookEmail: "E-mail",
  bookDate: "Date",
  bookGuests: "Guests",
  bookNote: "Note",
  book: "Book",
  booked: "Booked for {guests} on {date}. (Not really: this is a demonstration.)",
  bookReplace: "The booking form has something else in it. Replace it?",

  // First messages, each shows something else
  promptSearch: "Search, with reasoning",
  promptApproval: "A tool that needs your approval",
  promptPage: "A tool of this page",
  promptTwo: "Two of them at once",
  promptList: "A list that we both edit",
  promptDialog: "A dialog",
} as const;
