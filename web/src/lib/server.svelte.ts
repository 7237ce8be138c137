// What the server last said about itself, asked for every few seconds.
import { asProblem, get } from "./api";
import type { Kind, ModelCard, State } from "./types";

const SOON = 2000;
const LATER = 5000;

let state: State | null = $state.raw(null);
let away = $state(false);
let refused = $state(false);
let timer: ReturnType<typeof setTimeout> | undefined;
const onRestart: (() => void)[] = [];

export const server = {
  /** The last state, kept while the server is away; null before the first answer. */
  get state(): State | null {
    return state;
  },
  get models(): ModelCard[] {
    return state?.models ?? [];
  },
  /** Systems that were trained; the others are worked examples. */
  get trained(): ModelCard[] {
    return this.models.filter((card) => !card.example);
  },
  /** Systems of one kind, in history order. */
  ofKind(kind: Kind): ModelCard[] {
    return this.models.filter((card) => card.kind === kind);
  },
  get examples(): ModelCard[] {
    return this.models.filter((card) => card.example);
  },
  get away(): boolean {
    return away;
  },
  /** The token is missing or wrong. */
  get refused(): boolean {
    return refused;
  },
  card(name: string | null): ModelCard | null {
    return state?.models.find((card) => card.name === name) ?? null;
  },
  /** Calls back when the server was restarted or comes back. */
  onRestart(callback: () => void): void {
    onRestart.push(callback);
  },
  start(): void {
    clearTimeout(timer);
    void poll();
  },
};

async function poll(): Promise<void> {
  const before = { boot: state?.boot, away };
  try {
    const answer = await get<State>("/api/state");
    if (JSON.stringify(answer) !== JSON.stringify(state)) state = answer;
    away = false;
    refused = false;
    if (before.boot !== undefined && (before.boot !== answer.boot || before.away)) {
      for (const callback of onRestart) callback();
    }
  } catch (error) {
    const problem = asProblem(error);
    refused = problem.status === 401;
    away = !refused;
  }
  timer = setTimeout(() => void poll(), away || state?.preparing ? SOON : LATER);
}
