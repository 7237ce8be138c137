// The runs and the loaders of the chosen ones; polls while a run is live and the page is visible.
// Without a live run, only the list is polled, less often, for runs that start.
import { get } from "../../lib/api";
import type { RunCard } from "../../lib/types";
import { Resource } from "../shared/resource.svelte";
import { LinesLoader } from "./linesLoader.svelte";

const INTERVAL = 2000;
const IDLE_TICKS = 5;

export class RunPoller {
  readonly cards = new Resource<RunCard[]>();
  loaders: LinesLoader[] = $state.raw([]);
  readonly anyLive: boolean = $derived((this.cards.value ?? []).some((card) => card.live));
  private timer: ReturnType<typeof setInterval> | undefined;
  private before: ReadonlySet<string> = new Set();
  private idleTicks = 0;

  start(): void {
    this.refresh();
    this.timer = setInterval(() => this.tick(), INTERVAL);
    document.addEventListener("visibilitychange", this.onView);
  }

  stop(): void {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.onView);
    this.cards.stop();
    for (const loader of this.loaders) loader.stop();
  }

  /** Loads the list and every chosen run again. */
  refresh(): void {
    this.cards.load((signal) => get<RunCard[]>("/api/runs", undefined, signal));
    for (const loader of this.loaders) void loader.loadNew();
  }

  choose(names: readonly string[]): void {
    const current = this.loaders.filter((loader) => names.includes(loader.name));
    if (current.length === this.loaders.length && current.length === names.length) return;
    for (const loader of this.loaders) if (!current.includes(loader)) loader.stop();
    this.loaders = names.map((name) => current.find((loader) => loader.name === name) ?? new LinesLoader(name));
    for (const loader of this.loaders) if (!current.includes(loader)) void loader.loadNew();
  }

  private readonly onView = (): void => {
    if (!document.hidden) this.refresh();
  };

  /** A run that has just ended is loaded once more for its last line. */
  private tick(): void {
    const hasProblem = this.loaders.some((loader) => loader.problem?.unreachable || loader.problem?.status === 503);
    if (document.hidden || this.cards.loading) return;
    this.idleTicks = this.anyLive || this.before.size > 0 || hasProblem ? 0 : this.idleTicks + 1;
    if (this.idleTicks % IDLE_TICKS > 0) return;
    const live = new Set(this.cards.value?.filter((card) => card.live).map((card) => card.name));
    this.cards.load((signal) => get<RunCard[]>("/api/runs", undefined, signal));
    for (const loader of this.loaders) {
      if (live.has(loader.name) || this.before.has(loader.name) || loader.problem) void loader.loadNew();
    }
    this.before = live;
  }
}
