// Inspections: the one on the page, requested as the user types, and the weights of any, cached.
import { asProblem, bytes, Latest, post, type Problem } from "./api";
import { AnswerCache } from "./cache";
import { server } from "./server.svelte";
import type { Inspection } from "./types";
import type { Weights } from "./weights";

/** As many characters as the server takes. */
export const LONGEST_TEXT = 4000;
const TYPING = 60;
const BURST = 250;
const BUSY = 3000;
const MAX_WEIGHTS = 96;
const MAX_ROWS = 512;
const MAX_INSPECTIONS = 32;

type Question = { model: string; text: string; output: string | null };

let current: Inspection | null = $state.raw(null);
let loading = $state(false);
let problem: Problem | null = $state.raw(null);
let question: Question | null = null;
let lastRequest = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
const latest = new Latest();
const cachedInspections = new AnswerCache<Inspection>(MAX_INSPECTIONS);
const cachedWeights = new AnswerCache<Weights>(MAX_WEIGHTS);
const cachedRows = new AnswerCache<Float32Array>(MAX_ROWS);

export const inspections = {
  /** The inspection on the page: it stays until the next one is here. */
  get current(): Inspection | null {
    return current;
  },
  get loading(): boolean {
    return loading;
  },
  get problem(): Problem | null {
    return problem;
  },
  /** The server is away and the last inspection is still shown. */
  get stale(): boolean {
    return current !== null && (server.away || problem?.away === true);
  },

  /** Requests an inspection, at once or (while typing) after a pause; a newer request cancels the older. */
  ask(model: string, text: string, output: string | null = null): void {
    if (question && question.model === model && question.text === text && question.output === output) return;
    const isTyping = Date.now() - lastRequest < BURST;
    lastRequest = Date.now();
    question = { model, text, output };
    clearTimeout(timer);
    loading = true;
    timer = setTimeout(() => void load(), isTyping ? TYPING : 0);
  },

  /** Asks again after a problem. */
  retry(): void {
    clearTimeout(timer);
    void load();
  },

  /** A inspection beside the current one. */
  one(model: string, text: string, output: string | null = null, signal?: AbortSignal): Promise<Inspection> {
    return cachedInspections.get(JSON.stringify([model, text, output]), () =>
      post<Inspection>("/api/inspections", { model, text, output }, signal),
    );
  },

  /** The weights of a head (-1: the mean) for pictures. `inspection` may be anything with the id of a inspection. */
  weights(inspection: { id: string }, site: string, head: number, signal?: AbortSignal): Promise<Weights> {
    return cachedWeights.get(JSON.stringify([inspection.id, site, head]), async () => {
      const { data, headers } = await bytes(`${path(inspection)}/weights`, { site, head }, signal);
      const [queries, keys, high] = ["X-Queries", "X-Keys", "X-High"].map((name) =>
        Number(headers.get(name)),
      );
      return { queries: queries ?? 0, keys: keys ?? 0, high: high ?? 0, data: new Uint8Array(data) };
    });
  },

  /** The exact weights of one query. */
  row(
    inspection: { id: string },
    site: string,
    head: number,
    query: number,
    signal?: AbortSignal,
  ): Promise<Float32Array> {
    return cachedRows.get(JSON.stringify([inspection.id, site, head, query]), async () => {
      const { data } = await bytes(`${path(inspection)}/row`, { site, head, query }, signal);
      return new Float32Array(data);
    });
  },
};

server.onRestart(() => {
  cachedInspections.clear();
  cachedWeights.clear();
  cachedRows.clear();
  if (question) void load();
});

async function load(): Promise<void> {
  if (!question) return;
  const { model, text, output } = question;
  loading = true;
  try {
    const inspection = await latest.run((signal) => inspections.one(model, text, output, signal));
    if (inspection === undefined) return;
    current = inspection;
    problem = null;
  } catch (error) {
    problem = asProblem(error);
    if (problem.status === 503) timer = setTimeout(() => void load(), BUSY);
  }
  loading = false;
}

function path(inspection: { id: string }): string {
  return `/api/inspections/${encodeURIComponent(inspection.id)}`;
}
