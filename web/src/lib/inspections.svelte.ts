// Inspections: the one on the page, requested as the user types, and the weights of any, cached.
import { asProblem, bytes, Latest, post, type Problem } from "./api";
import { ResponseCache } from "./cache";
import { ExactRows } from "./exactRows.svelte";
import { server } from "./server.svelte";
import type { Inspection } from "./types";
import { fromValues, type Weights } from "./weights";

/** The longest text that the server accepts, in characters. */
export const MAX_TEXT = 4000;
const TYPING_DELAY = 60;
const TYPING_PAUSE = 250;
const RETRY_DELAY = 3000;
const MAX_WEIGHTS = 96;
const MAX_ROWS = 512;
const MAX_INSPECTIONS = 32;

type Request = { model: string; text: string; output: string | null };

let current: Inspection | null = $state.raw(null);
let loading = $state(false);
let problem: Problem | null = $state.raw(null);
let request: Request | null = null;
let lastRequest = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
const latest = new Latest();
const cachedInspections = new ResponseCache<Inspection>(MAX_INSPECTIONS);
const cachedWeights = new ResponseCache<Weights>(MAX_WEIGHTS);
const cachedRows = new ResponseCache<Float32Array>(MAX_ROWS);

export const inspections = {
  /** The inspection on the page: the last one until the next one arrives; null for a text that is refused. */
  get current(): Inspection | null {
    return current;
  },
  get loading(): boolean {
    return loading;
  },
  get problem(): Problem | null {
    return problem;
  },
  /** True if the last inspection is shown although the server is unreachable. */
  get stale(): boolean {
    return current !== null && (server.unreachable || problem?.unreachable === true);
  },

  /** Requests an inspection, at once or (while typing) after a pause; a newer request cancels the older. */
  request(model: string, text: string, output: string | null = null): void {
    if (request && request.model === model && request.text === text && request.output === output) return;
    const isTyping = Date.now() - lastRequest < TYPING_PAUSE;
    lastRequest = Date.now();
    request = { model, text, output };
    clearTimeout(timer);
    loading = true;
    timer = setTimeout(() => void load(), isTyping ? TYPING_DELAY : 0);
  },

  /** Shows no inspection: there is no text that could be inspected. */
  clear(): void {
    clearTimeout(timer);
    latest.stop();
    [current, problem, request, loading] = [null, null, null, false];
  },

  /** Sends the request again after a problem. */
  retry(): void {
    clearTimeout(timer);
    void load();
  },

  /** An inspection other than the current one. */
  fetch(model: string, text: string, output: string | null = null, signal?: AbortSignal): Promise<Inspection> {
    return cachedInspections.get(JSON.stringify([model, text, output]), () =>
      post<Inspection>("/api/inspections", { model, text, output }, signal),
    );
  },

  /**
   * The weights of a head (-1: the mean), exact or, of a large map, as colours with exact rows on request. `inspection`
   * may be a swap result, which has the id of an inspection.
   */
  weights(inspection: { id: string }, site: string, head: number, signal?: AbortSignal): Promise<Weights> {
    return cachedWeights.get(JSON.stringify([inspection.id, site, head]), async () => {
      const { data, headers } = await bytes(`${path(inspection)}/weights`, { site, head, exact: true }, signal);
      const [queries, keys, high] = ["X-Queries", "X-Keys", "X-High"].map((name) => Number(headers.get(name) ?? 0)) as [
        number,
        number,
        number,
      ];
      if (headers.get("X-Type") === "float32") return fromValues(new Float32Array(data), queries, keys);
      const rows = new ExactRows(queries, keys, (first, count) => inspections.rows(inspection, site, head, first, count));
      const value = (i: number, j: number) => rows.get(i)?.[j] ?? null;
      return { queries, keys, high, data: new Uint8Array(data), value, need: rows.need, all: rows.all };
    });
  },

  /** The exact weights of some queries. */
  async rows(
    inspection: { id: string },
    site: string,
    head: number,
    query: number,
    count: number,
    signal?: AbortSignal,
  ): Promise<Float32Array[]> {
    const { data } = await bytes(`${path(inspection)}/row`, { site, head, query, count }, signal);
    const all = new Float32Array(data);
    const keys = all.length / count;
    return Array.from({ length: count }, (_, row) => all.subarray(row * keys, (row + 1) * keys));
  },

  /** The exact weights of one query. */
  row(inspection: { id: string }, site: string, head: number, query: number, signal?: AbortSignal): Promise<Float32Array> {
    return cachedRows.get(JSON.stringify([inspection.id, site, head, query]), async () => {
      return (await inspections.rows(inspection, site, head, query, 1, signal))[0]!;
    });
  },
};

server.onRestart(() => {
  cachedInspections.clear();
  cachedWeights.clear();
  cachedRows.clear();
  if (request) void load();
});

async function load(): Promise<void> {
  if (!request) return;
  const { model, text, output } = request;
  loading = true;
  try {
    const inspection = await latest.run((signal) => inspections.fetch(model, text, output, signal));
    if (inspection === undefined) return;
    current = inspection;
    problem = null;
  } catch (error) {
    problem = asProblem(error);
    // a refused text has no answer, and the answer to another text would be taken for it
    if (!problem.unreachable && problem.status !== 503) current = null;
    if (problem.status === 503) timer = setTimeout(() => void load(), RETRY_DELAY);
  }
  loading = false;
}

function path(inspection: { id: string }): string {
  return `/api/inspections/${encodeURIComponent(inspection.id)}`;
}
