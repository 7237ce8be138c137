// Requests to the server, by path ("/api/state"); an inspection that was evicted from the server's cache is posted again.
import { token } from "./token";

export type Parameters = Record<string, string | number | boolean | string[] | null | undefined>;
export type Bytes = { data: ArrayBuffer; headers: Headers };

const MAX_ATTEMPTS = 4;
const MAX_WAIT_SECONDS = 2;
const MAX_REPOSTS = 200;
/** For each inspection the request that creates it again; it resolves to the new id. */
const reposts = new Map<string, () => Promise<string>>();

/** An error, as the server's sentence; `unreachable` if there was no response. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly unreachable = false,
  ) {
    super(detail);
    this.name = "Problem";
  }
}

/** Any error as a Problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, error instanceof Error ? error.message : String(error));
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Runs one request at a time: a new one aborts the one before, whose result is undefined. */
export class Latest {
  private controller: AbortController | null = null;

  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    this.stop();
    const controller = new AbortController();
    this.controller = controller;
    try {
      const result = await work(controller.signal);
      return controller.signal.aborted ? undefined : result;
    } catch (error) {
      if (controller.signal.aborted) return undefined;
      throw error;
    } finally {
      if (this.controller === controller) this.controller = null;
    }
  }

  stop(): void {
    this.controller?.abort();
    this.controller = null;
  }
}

export async function get<T>(path: string, parameters?: Parameters, signal?: AbortSignal): Promise<T> {
  const response = await withRepost(path, (current) => send(address(current, parameters), { signal }));
  return (await response.json()) as T;
}

/** Cancels the work at an address; the server responds with its new state. */
export async function cancel<T>(path: string, parameters?: Parameters, signal?: AbortSignal): Promise<T> {
  return (await (await send(address(path, parameters), { method: "DELETE", signal })).json()) as T;
}

/** Inspections are stored by id, so that an evicted one can be posted again. */
export async function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = { "Content-Type": "application/json" };
  const response = await withRepost(path, (current) => send(current, { method: "POST", body: text, headers, signal }));
  const message = (await response.json()) as T;
  const id = (message as { id?: unknown } | null)?.id;
  if (path.startsWith("/api/inspections") && typeof id === "string") {
    reposts.delete(id);
    reposts.set(id, async () => (await post<{ id: string }>(path, body)).id);
    if (reposts.size > MAX_REPOSTS) reposts.delete(reposts.keys().next().value!);
  }
  return message;
}

export async function bytes(path: string, parameters?: Parameters, signal?: AbortSignal): Promise<Bytes> {
  const response = await withRepost(path, (current) => send(address(current, parameters), { signal }));
  return { data: await response.arrayBuffer(), headers: response.headers };
}

export function address(path: string, parameters: Parameters = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) search.append(name, String(item));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

async function withRepost(path: string, work: (path: string) => Promise<Response>): Promise<Response> {
  const id = /^\/api\/inspections\/([^/?]+)/.exec(path)?.[1];
  try {
    return await work(path);
  } catch (error) {
    const repost = id === undefined ? undefined : reposts.get(decodeURIComponent(id));
    if (!(error instanceof Problem) || error.status !== 404 || !id || !repost) throw error;
    return await work(path.replace(id, encodeURIComponent(await repost())));
  }
}

async function send(path: string, options: RequestInit): Promise<Response> {
  const headers = { ...options.headers, Authorization: `Bearer ${token()}` };
  for (let attempt = 1; ; attempt += 1) {
    const response = await reach(path, { ...options, headers });
    if (response.ok) return response;
    if (response.status !== 503 || attempt === MAX_ATTEMPTS) throw await refusal(response);
    const seconds = Number(response.headers.get("Retry-After") ?? 1) || 1;
    await pause(Math.min(seconds, MAX_WAIT_SECONDS) * 1000, options.signal ?? undefined);
  }
}

async function reach(path: string, options: RequestInit): Promise<Response> {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Problem(0, "The server cannot be reached.", true);
  }
}

async function refusal(response: Response): Promise<Problem> {
  try {
    const body = (await response.json()) as { detail?: unknown };
    if (typeof body.detail === "string") return new Problem(response.status, body.detail);
    if (body.detail !== undefined) return new Problem(response.status, JSON.stringify(body.detail));
  } catch {
    return new Problem(response.status, response.statusText || `Status ${response.status}`);
  }
  return new Problem(response.status, response.statusText || `Status ${response.status}`);
}

function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException("Aborted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
