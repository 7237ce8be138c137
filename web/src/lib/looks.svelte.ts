// Looks: the one on the page, asked for as the reader types, and the weights of any, kept for a while.
import { asProblem, bytes, Latest, post, type Problem } from "./api";
import { Kept } from "./kept";
import { server } from "./server.svelte";
import type { Look } from "./types";
import type { Weights } from "./weights";

/** As many characters as the server takes. */
export const LONGEST_TEXT = 4000;
const TYPING = 60;
const BURST = 250;
const BUSY = 3000;
const MOST_WEIGHTS = 96;
const MOST_ROWS = 512;
const MOST_LOOKS = 32;

type Asked = { model: string; text: string; answer: string | null };

let current: Look | null = $state.raw(null);
let loading = $state(false);
let problem: Problem | null = $state.raw(null);
let asked: Asked | null = null;
let lastAsked = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
const latest = new Latest();
const keptLooks = new Kept<Look>(MOST_LOOKS);
const keptWeights = new Kept<Weights>(MOST_WEIGHTS);
const keptRows = new Kept<Float32Array>(MOST_ROWS);

export const looks = {
  /** The look on the page: it stays until the next one is here. */
  get current(): Look | null {
    return current;
  },
  get loading(): boolean {
    return loading;
  },
  get problem(): Problem | null {
    return problem;
  },
  /** The server is away and the last look is still shown. */
  get stale(): boolean {
    return current !== null && (server.away || problem?.away === true);
  },

  /** Asks for a look, at once or (amid typing) when the keys rest; a newer question cancels the older. */
  ask(model: string, text: string, answer: string | null = null): void {
    if (asked && asked.model === model && asked.text === text && asked.answer === answer) return;
    const isTyping = Date.now() - lastAsked < BURST;
    lastAsked = Date.now();
    asked = { model, text, answer };
    clearTimeout(timer);
    loading = true;
    timer = setTimeout(() => void load(), isTyping ? TYPING : 0);
  },

  /** Asks again after a problem. */
  retry(): void {
    clearTimeout(timer);
    void load();
  },

  /** A look beside the current one. */
  one(model: string, text: string, answer: string | null = null, signal?: AbortSignal): Promise<Look> {
    return keptLooks.get(JSON.stringify([model, text, answer]), () =>
      post<Look>("/api/looks", { model, text, answer }, signal),
    );
  },

  /** The weights of a head (-1: the mean) for pictures. `look` may be anything with the id of a look. */
  weights(look: { id: string }, site: string, head: number, signal?: AbortSignal): Promise<Weights> {
    return keptWeights.get(JSON.stringify([look.id, site, head]), async () => {
      const { data, headers } = await bytes(`${path(look)}/weights`, { site, head }, signal);
      const [queries, keys, high] = ["X-Queries", "X-Keys", "X-High"].map((name) =>
        Number(headers.get(name)),
      );
      return { queries: queries ?? 0, keys: keys ?? 0, high: high ?? 0, data: new Uint8Array(data) };
    });
  },

  /** The exact weights of one query. */
  row(
    look: { id: string },
    site: string,
    head: number,
    query: number,
    signal?: AbortSignal,
  ): Promise<Float32Array> {
    return keptRows.get(JSON.stringify([look.id, site, head, query]), async () => {
      const { data } = await bytes(`${path(look)}/row`, { site, head, query }, signal);
      return new Float32Array(data);
    });
  },
};

server.onRestart(() => {
  keptLooks.clear();
  keptWeights.clear();
  keptRows.clear();
  if (asked) void load();
});

async function load(): Promise<void> {
  if (!asked) return;
  const { model, text, answer } = asked;
  loading = true;
  try {
    const look = await latest.run((signal) => looks.one(model, text, answer, signal));
    if (look === undefined) return;
    current = look;
    problem = null;
  } catch (error) {
    problem = asProblem(error);
    if (problem.status === 503) timer = setTimeout(() => void load(), BUSY);
  }
  loading = false;
}

function path(look: { id: string }): string {
  return `/api/looks/${encodeURIComponent(look.id)}`;
}
