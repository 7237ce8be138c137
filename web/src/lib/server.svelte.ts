// The last state of the server, requested every few seconds.
import { asProblem, get } from "./api";
import type { LocalizedText, ModelCard, State } from "./types";

export type Group = { task: string; title: LocalizedText; cards: ModelCard[] };

const SOON = 2000;
const LATER = 5000;

let state: State | null = $state.raw(null);
let unreachable = $state(false);
let hasNoToken = $state(false);
let timer: ReturnType<typeof setTimeout> | undefined;
const onRestart: (() => void)[] = [];

export const server = {
  /** The last state, also while the server is unreachable; null before the first response. */
  get state(): State | null {
    return state;
  },
  get models(): ModelCard[] {
    return state?.models ?? [];
  },
  /** Models that take any input; the others, such as worked examples, have a fixed one. */
  get trained(): ModelCard[] {
    return this.models.filter((card) => !card.fixed_input);
  },
  get examples(): ModelCard[] {
    return this.models.filter((card) => card.fixed_input);
  },
  /** The models of each task, in the order of the server. */
  get groups(): Group[] {
    return groupsOf(this.models);
  },
  /** Models whose outputs can be compared: of the first task with several that take an output. */
  get comparable(): ModelCard[] {
    const groups = groupsOf(this.models.filter((card) => card.takes_output));
    return (groups.find((group) => group.cards.length > 1) ?? groups[0])?.cards ?? [];
  },
  get unreachable(): boolean {
    return unreachable;
  },
  /** The token is missing or wrong. */
  get hasNoToken(): boolean {
    return hasNoToken;
  },
  card(name: string | null): ModelCard | null {
    return state?.models.find((card) => card.name === name) ?? null;
  },
  /** Registers a callback for when the server was restarted or is reachable again. */
  onRestart(callback: () => void): void {
    onRestart.push(callback);
  },
  start(): void {
    clearTimeout(timer);
    void poll();
  },
};

function groupsOf(cards: ModelCard[]): Group[] {
  const groups = new Map<string, Group>();
  for (const card of cards) {
    const group = groups.get(card.task) ?? { task: card.task, title: card.task_title, cards: [] };
    group.cards.push(card);
    groups.set(card.task, group);
  }
  return [...groups.values()];
}

async function poll(): Promise<void> {
  const before = { serverId: state?.server_id, unreachable };
  try {
    const next = await get<State>("/api/state");
    if (JSON.stringify(next) !== JSON.stringify(state)) state = next;
    unreachable = false;
    hasNoToken = false;
    if (before.serverId !== undefined && (before.serverId !== next.server_id || before.unreachable)) {
      for (const callback of onRestart) callback();
    }
  } catch (error) {
    const problem = asProblem(error);
    hasNoToken = problem.status === 401;
    unreachable = !hasNoToken;
  }
  timer = setTimeout(() => void poll(), unreachable || state?.demo_training ? SOON : LATER);
}
