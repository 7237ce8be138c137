// The selection as the URL after #, and back: "#/watch?model=..&text=..&site=..&head=..&i=..&j=..&t=..".
export const SCREENS = ["watch", "compute", "swap", "compare", "heads", "runs", "timeline", "learn"] as const;
export type Screen = (typeof SCREENS)[number];

/** The selection of all screens; null is no choice. Indices count raw tokens; head -1 is the mean of all heads. */
export type Selection = {
  screen: Screen;
  model: string | null;
  text: string | null;
  output: string | null;
  site: string | null;
  head: number | null;
  query: number | null;
  key: number | null;
  step: number | null;
  others: string[];
  extra: Record<string, string>;
};

const NAMES = {
  model: "model",
  text: "text",
  output: "output",
  site: "site",
  head: "head",
  query: "i",
  key: "j",
  step: "t",
} as const;

export function emptySelection(): Selection {
  return {
    screen: "watch",
    model: null,
    text: null,
    output: null,
    site: null,
    head: null,
    query: null,
    key: null,
    step: null,
    others: [],
    extra: {},
  };
}

export function toHash(selection: Selection): string {
  const search = new URLSearchParams();
  for (const [field, name] of Object.entries(NAMES)) {
    const value = selection[field as keyof typeof NAMES];
    if (value !== null) search.set(name, String(value));
  }
  for (const other of selection.others) search.append("with", other);
  for (const [name, value] of Object.entries(selection.extra)) search.set(`x.${name}`, value);
  const text = search.toString();
  return `#/${selection.screen}${text ? `?${text}` : ""}`;
}

export function fromHash(hash: string): Selection {
  const [, path = "", query = ""] = /^#?\/?([^?]*)\??([\s\S]*)$/.exec(hash) ?? [];
  const search = new URLSearchParams(query);
  const extra: Record<string, string> = {};
  for (const [name, value] of search) if (name.startsWith("x.")) extra[name.slice(2)] = value;
  return {
    screen: SCREENS.find((screen) => screen === path) ?? "watch",
    model: search.get(NAMES.model),
    text: search.get(NAMES.text),
    output: search.get(NAMES.output),
    site: search.get(NAMES.site),
    head: integer(search.get(NAMES.head), -1),
    query: integer(search.get(NAMES.query), 0),
    key: integer(search.get(NAMES.key), 0),
    step: integer(search.get(NAMES.step), 0),
    others: search.getAll("with"),
    extra,
  };
}

/** The selection after a change: fields that are no longer valid are cleared, unless the change sets them. */
export function changed(before: Selection, changes: Partial<Selection>): Selection {
  const after = { ...before };
  const isNew = (field: keyof Selection) => field in changes && changes[field] !== before[field];
  if (isNew("screen")) after.extra = {};
  if (isNew("model")) Object.assign(after, { site: null, head: null });
  if (isNew("text")) after.output = null;
  if (isNew("model") || isNew("text") || isNew("output"))
    Object.assign(after, { query: null, key: null, step: null });
  if (isNew("site")) Object.assign(after, { head: null, query: null, key: null, step: null });
  return { ...after, ...changes };
}

function integer(text: string | null, lowest: number): number | null {
  if (text === null || !/^-?\d{1,9}$/.test(text)) return null;
  const value = Number(text);
  return value >= lowest ? value : null;
}
