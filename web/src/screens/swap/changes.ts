// The differences of two outputs: parts outside their longest common subsequence are marked.
export interface Part {
  text: string;
  changed: boolean;
}

const MAX_CELLS = 4_000_000;

/** Words, numbers and punctuation, also in Chinese. */
export function wordsOf(text: string, locale: string): string[] {
  return [...new Intl.Segmenter(locale, { granularity: "word" }).segment(text)].map((each) => each.segment);
}

function commonLengths(first: readonly string[], second: readonly string[]): Uint16Array {
  const width = second.length + 1;
  const lengths = new Uint16Array((first.length + 1) * width);
  for (let i = first.length - 1; i >= 0; i--) {
    for (let j = second.length - 1; j >= 0; j--) {
      const here = i * width + j;
      lengths[here] =
        first[i] === second[j]
          ? (lengths[here + width + 1] ?? 0) + 1
          : Math.max(lengths[here + width] ?? 0, lengths[here + 1] ?? 0);
    }
  }
  return lengths;
}

/** Both lists with differences marked; long ones are compared by position. */
export function differences(first: readonly string[], second: readonly string[]): [Part[], Part[]] {
  if (first.length * second.length > MAX_CELLS) {
    const byPosition = (own: readonly string[], other: readonly string[]): Part[] =>
      own.map((text, position) => ({ text, changed: text !== other[position] }));
    return [byPosition(first, second), byPosition(second, first)];
  }
  const lengths = commonLengths(first, second);
  const width = second.length + 1;
  const before = first.map((text) => ({ text, changed: true }));
  const after = second.map((text) => ({ text, changed: true }));
  let i = 0;
  let j = 0;
  while (i < first.length && j < second.length) {
    const [here, there] = [before[i], after[j]];
    if (here && there && here.text === there.text) {
      here.changed = there.changed = false;
      i++;
      j++;
    } else if ((lengths[(i + 1) * width + j] ?? 0) >= (lengths[i * width + j + 1] ?? 0)) i++;
    else j++;
  }
  return [before, after];
}

/** Merges neighbours with the same mark. */
export function joined(parts: readonly Part[]): Part[] {
  const whole: Part[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    if (last && last.changed === part.changed) last.text += part.text;
    else whole.push({ ...part });
  }
  return whole;
}
