// The runs and the feeds of the chosen ones; polls while a run is live and the page is in view.
// Where none is, the list alone is looked at now and then, for runs that begin.
import { get } from "../../lib/api";
import type { RunCard } from "../../lib/types";
import { Loaded } from "../shared/loaded.svelte";
import { Feed } from "./feed.svelte";

const EVERY = 2000;
const QUIET_TICKS = 5;

export class RunWatch {
  readonly cards = new Loaded<RunCard[]>();
  feeds: Feed[] = $state.raw([]);
  readonly anyLive: boolean = $derived((this.cards.value ?? []).some((card) => card.live));
  private timer: ReturnType<typeof setInterval> | undefined;
  private before: ReadonlySet<string> = new Set();
  private quiet = 0;

  start(): void {
    this.refresh();
    this.timer = setInterval(() => this.tick(), EVERY);
    document.addEventListener("visibilitychange", this.onView);
  }

  stop(): void {
    clearInterval(this.timer);
    document.removeEventListener("visibilitychange", this.onView);
    this.cards.stop();
    for (const feed of this.feeds) feed.stop();
  }

  /** Reads the list and every chosen run once more. */
  refresh(): void {
    this.cards.load((signal) => get<RunCard[]>("/api/runs", undefined, signal));
    for (const feed of this.feeds) void feed.readOn();
  }

  choose(names: readonly string[]): void {
    const kept = this.feeds.filter((feed) => names.includes(feed.name));
    if (kept.length === this.feeds.length && kept.length === names.length) return;
    for (const feed of this.feeds) if (!kept.includes(feed)) feed.stop();
    this.feeds = names.map((name) => kept.find((feed) => feed.name === name) ?? new Feed(name));
    for (const feed of this.feeds) if (!kept.includes(feed)) void feed.readOn();
  }

  private readonly onView = (): void => {
    if (!document.hidden) this.refresh();
  };

  /** A run that has just ended is read once more, so that its last line is not lost. */
  private tick(): void {
    const isTroubled = this.feeds.some((feed) => feed.problem?.away || feed.problem?.status === 503);
    if (document.hidden || this.cards.loading) return;
    this.quiet = this.anyLive || this.before.size > 0 || isTroubled ? 0 : this.quiet + 1;
    if (this.quiet % QUIET_TICKS > 0) return;
    const live = new Set(this.cards.value?.filter((card) => card.live).map((card) => card.name));
    this.cards.load((signal) => get<RunCard[]>("/api/runs", undefined, signal));
    for (const feed of this.feeds) {
      if (live.has(feed.name) || this.before.has(feed.name) || feed.problem) void feed.readOn();
    }
    this.before = live;
  }
}
