// The name of one raw token: its text where it is a whole label, else the raw token.
import { clean, labelText, writtenText } from "../../lib/labels";
import type { Axis } from "../../lib/types";

export function tokenName(axis: Axis, index: number): string {
  const label = axis.labels.find(({ first, last }) => first <= index && index <= last);
  const isWhole = label !== undefined && !label.mark && label.first === label.last;
  if (!isWhole) return clean(axis.tokens[index] ?? "");
  const written = writtenText(axis, label);
  return written === null ? labelText(label.text) : clean(written);
}
