// A paragraph of a lesson, cut into text, code (between backticks) and formulas (between dollar signs).
export interface Part {
  kind: "text" | "code" | "formula";
  text: string;
}

export function cut(paragraph: string): Part[] {
  const parts: Part[] = [];
  let read = 0;
  for (const found of paragraph.matchAll(/`([^`]+)`|\$([^$]+)\$/g)) {
    if (found.index > read) parts.push({ kind: "text", text: paragraph.slice(read, found.index) });
    parts.push(found[1] === undefined ? { kind: "formula", text: found[2] } : { kind: "code", text: found[1] });
    read = found.index + found[0].length;
  }
  if (read < paragraph.length) parts.push({ kind: "text", text: paragraph.slice(read) });
  return parts;
}
