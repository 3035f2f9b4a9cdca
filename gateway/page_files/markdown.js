// The little Markdown that answers use, as elements: paragraphs, headings, lists, quotes, tables, code. Never as HTML text, so
// that nothing a model writes can be more than words.

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*|\[[^\]\n]+\]\(https?:\/\/[^)\s]+\))/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const LIST = /^\s*([-*+]|\d+[.)])\s+/;
const HEADING = /^#{1,6}\s+/;
const QUOTE = /^\s*>\s?/;
const FENCE = /^\s*(```|~~~)/;

/** Make `text` the content of `element`. */
export function showMarkdown(element, text) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    const taken = [lines[at]];
    const takeWhile = (fits) => {
      while (at + taken.length < lines.length && fits(lines[at + taken.length])) taken.push(lines[at + taken.length]);
    };
    if (FENCE.test(taken[0])) {
      takeWhile((line) => !FENCE.test(line));
      blocks.push(code(taken.slice(1).join("\n")));
      at += 1; // the fence that ends it
    } else if (taken[0].includes("|") && TABLE_RULE.test(lines[at + 1] ?? "")) {
      takeWhile((line) => line.includes("|"));
      blocks.push(table(taken));
    } else if (LIST.test(taken[0])) {
      takeWhile((line) => LIST.test(line));
      blocks.push(list(taken));
    } else if (QUOTE.test(taken[0])) {
      takeWhile((line) => QUOTE.test(line));
      blocks.push(document.createElement("blockquote"));
      showMarkdown(blocks.at(-1), taken.map((line) => line.replace(QUOTE, "")).join("\n"));
    } else if (HEADING.test(taken[0])) {
      blocks.push(inline(document.createElement("h2"), taken[0].replace(HEADING, "")));
    } else if (taken[0].trim()) {
      takeWhile((line) => line.trim() && ![LIST, QUOTE, HEADING, FENCE].some((start) => start.test(line)));
      blocks.push(inline(document.createElement("p"), taken.join("\n")));
    }
    at += taken.length;
  }
  element.replaceChildren(...blocks);
}

function code(text) {
  const element = document.createElement("pre");
  element.className = "code";
  element.textContent = text;
  return element;
}

function table([head, , ...rows]) {
  const element = document.createElement("table");
  for (const [index, line] of [head, ...rows].entries()) {
    const row = element.insertRow();
    const cells = line.trim().replace(/^\||\|$/g, "").split("|");
    row.append(...cells.map((cell) => inline(document.createElement(index ? "td" : "th"), cell.trim())));
  }
  return element;
}

function list(lines) {
  const element = document.createElement(/^\s*\d/.test(lines[0]) ? "ol" : "ul");
  element.append(...lines.map((line) => inline(document.createElement("li"), line.replace(LIST, ""))));
  return element;
}

function inline(element, text) {
  for (const [index, part] of text.split(INLINE).entries()) {
    if (index % 2 === 0) {
      part.split("\n").forEach((line, number) => element.append(...(number ? [document.createElement("br")] : []), line));
    } else if (part.startsWith("[")) {
      const link = document.createElement("a");
      const [, words, address] = /^\[(.+)\]\((.+)\)$/.exec(part);
      Object.assign(link, { href: address, textContent: words, rel: "noreferrer", target: "_blank" });
      element.append(link);
    } else {
      const marks = /^(`|\*\*|\*)/.exec(part)[0];
      const marked = document.createElement({ "`": "code", "**": "strong", "*": "em" }[marks]);
      marked.textContent = part.slice(marks.length, -marks.length);
      element.append(marked);
    }
  }
  return element;
}
