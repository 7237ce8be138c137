// A paragraph of a lesson, split into text, code (between backticks) and formulas (between dollar signs).
export interface Part {
  kind: "text" | "code" | "formula";
  text: string;
}

export function splitParagraph(paragraph: string): Part[] {
  const parts: Part[] = [];
  let position = 0;
  for (const match of paragraph.matchAll(/`([^`]+)`|\$([^$]+)\$/g)) {
    if (match.index > position) parts.push({ kind: "text", text: paragraph.slice(position, match.index) });
    parts.push(match[1] === undefined ? { kind: "formula", text: match[2] } : { kind: "code", text: match[1] });
    position = match.index + match[0].length;
  }
  if (position < paragraph.length) parts.push({ kind: "text", text: paragraph.slice(position) });
  return parts;
}
