// The differences of two outputs: the parts of one outside their longest common subsequence.
/** A part without text is a gap: text that only the other output has. */
export type Part = { text: string; differs: boolean };

const MAX_CHARACTERS = 120;

/** Compares by characters, long texts by words. */
export function differences(output: string, reference: string): Part[] {
  const isShort = Math.max(output.length, reference.length) <= MAX_CHARACTERS;
  const split = (text: string) => (isShort ? [...text] : text.split(/(\s+)/).filter((part) => part !== ""));
  const [ours, theirs] = [split(output), split(reference)];
  const common = table(ours, theirs);
  const parts: Part[] = [];
  let [i, j] = [0, 0];
  while (i < ours.length || j < theirs.length) {
    const isCommon = i < ours.length && ours[i] === theirs[j];
    const isTheirs = j < theirs.length && (i === ours.length || common[i]![j + 1]! > common[i + 1]![j]!);
    if (isCommon) j += 1;
    if (isCommon || !isTheirs) add(parts, ours[i++]!, !isCommon);
    else {
      add(parts, "", true);
      j += 1;
    }
  }
  return parts;
}

function table(ours: string[], theirs: string[]): Uint16Array[] {
  const longest = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i -= 1) {
    for (let j = theirs.length - 1; j >= 0; j -= 1) {
      const isSame = ours[i] === theirs[j];
      longest[i]![j] = isSame
        ? longest[i + 1]![j + 1]! + 1
        : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
    }
  }
  return longest;
}

function add(parts: Part[], text: string, differs: boolean): void {
  const last = parts.at(-1);
  if (last && last.differs === differs) last.text += text;
  else parts.push({ text, differs });
}
