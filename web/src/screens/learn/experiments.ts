// Runs of an experiment: their requests, the settings that differ from the defaults, and filtering the cards.
import { fixed } from "../../lib/format";
import type { Control, Experiment, ExperimentRun, LessonCard, LocalizedText } from "../../lib/types";
import { t } from "../texts/learn";
import { fitted, type Settings } from "./settings";

const ACTIVE = ["waiting", "running", "stopping"];

/** True if a run waits or computes, so that its state will change. */
export const isActive = (run: { state: Experiment["state"] }): boolean => ACTIVE.includes(run.state);

/** The settings within their limits, without those that have their default: a run has one address. */
export function changedSettings(controls: Control[], settings: Record<string, number>): Settings {
  const changed: Settings = {};
  for (const control of controls) {
    const value = settings[control.name];
    if (value === undefined) continue;
    const allowed = fitted(control, value);
    if (allowed !== control.value) changed[control.name] = allowed;
  }
  return changed;
}

/** The run with these settings, where missing ones have their default. */
export function runWith(runs: ExperimentRun[], controls: Control[], settings: Settings): ExperimentRun | null {
  const value = (control: Control): number => settings[control.name] ?? control.value;
  return runs.find((run) => controls.every((control) => run.settings[control.name] === value(control))) ?? null;
}

/** The cards with every word of a text in number, title or summary, in either language. */
export function matching(cards: LessonCard[], text: string): LessonCard[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const both = (one: LocalizedText): string => `${one.en} ${one.zh}`;
  return cards.filter((card) => {
    const content = `${card.number ?? ""} ${both(card.title)} ${both(card.summary)}`.toLowerCase();
    return words.every((word) => content.includes(word));
  });
}

/** Seconds as a duration: "0.4 s", "12 s", "3 min 5 s". */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return t("seconds", { seconds: seconds < 9.95 ? fixed(seconds, 1) : whole });
  return t("minutes", { minutes: Math.floor(whole / 60), seconds: whole % 60 });
}
