// Colour scales: viridis (perceptually uniform) for weights, and a diverging scale for differences.
const VIRIDIS = [
  "44015444025645045745055946075a46085c460a5d460b5e470d60470e61471063471164471365481467481668481769",
  "48186a481a6c481b6d481c6e481d6f481f70482071482173482374482475482576482677482878482979472a7a472c7a",
  "472d7b472e7c472f7d46307e46327e46337f463480453581453781453882443983443a83443b84433d84433e85423f85",
  "4240864241864142874144874045884046883f47883f48893e49893e4a893e4c8a3d4d8a3d4e8a3c4f8a3c508b3b518b",
  "3b528b3a538b3a548c39558c39568c38588c38598c375a8c375b8d365c8d365d8d355e8d355f8d34608d34618d33628d",
  "33638d32648e32658e31668e31678e31688e30698e306a8e2f6b8e2f6c8e2e6d8e2e6e8e2e6f8e2d708e2d718e2c718e",
  "2c728e2c738e2b748e2b758e2a768e2a778e2a788e29798e297a8e297b8e287c8e287d8e277e8e277f8e27808e26818e",
  "26828e26828e25838e25848e25858e24868e24878e23888e23898e238a8d228b8d228c8d228d8d218e8d218f8d21908d",
  "21918c20928c20928c20938c1f948c1f958b1f968b1f978b1f988b1f998a1f9a8a1e9b8a1e9c891e9d891f9e891f9f88",
  "1fa0881fa1881fa1871fa28720a38620a48621a58521a68522a78522a88423a98324aa8325ab8225ac8226ad8127ad81",
  "28ae8029af7f2ab07f2cb17e2db27d2eb37c2fb47c31b57b32b67a34b67935b77937b87838b9773aba763bbb753dbc74",
  "3fbc7340bd7242be7144bf7046c06f48c16e4ac16d4cc26c4ec36b50c46a52c56954c56856c66758c7655ac8645cc863",
  "5ec96260ca6063cb5f65cb5e67cc5c69cd5b6ccd5a6ece5870cf5773d05675d05477d1537ad1517cd2507fd34e81d34d",
  "84d44b86d54989d5488bd6468ed64590d74393d74195d84098d83e9bd93c9dd93ba0da39a2da37a5db36a8db34aadc32",
  "addc30b0dd2fb2dd2db5de2bb8de29bade28bddf26c0df25c2df23c5e021c8e020cae11fcde11dd0e11cd2e21bd5e21a",
  "d8e219dae319dde318dfe318e2e418e5e419e7e419eae51aece51befe51cf1e51df4e61ef6e620f8e621fbe723fde725",
].join("");

/** 256 colours, red, green and blue in turn. */
export const viridisTable = Uint8Array.from({ length: 768 }, (_, k) =>
  parseInt(VIRIDIS.slice(2 * k, 2 * k + 2), 16),
);

const LESS = [33, 102, 172] as const;
const MORE = [179, 88, 6] as const;
const LIGHT = [250, 250, 248] as const;
const DARK = [34, 38, 44] as const;

/** For differences: blue below 0 (byte 128), orange above, the colour of the page at 0. */
export function differenceTable(dark: boolean): Uint8Array {
  const zero = dark ? DARK : LIGHT;
  const table = new Uint8Array(768);
  for (let byte = 0; byte < 256; byte += 1) {
    const end = byte < 128 ? LESS : MORE;
    const share = Math.min(1, Math.abs(byte - 128) / 127);
    for (let part = 0; part < 3; part += 1) {
      table[byte * 3 + part] = Math.round(zero[part]! + share * (end[part]! - zero[part]!));
    }
  }
  return table;
}

export function viridis(share: number): [number, number, number] {
  return colourOf(viridisTable, toByte(share));
}

export function colourOf(table: Uint8Array, byte: number): [number, number, number] {
  return [table[byte * 3] ?? 0, table[byte * 3 + 1] ?? 0, table[byte * 3 + 2] ?? 0];
}

/** The text colour that reads best on a colour of viridis. */
export function ink(share: number): "#000000" | "#ffffff" {
  return inkOn(viridis(share));
}

export function inkOn([red, green, blue]: readonly [number, number, number]): "#000000" | "#ffffff" {
  const light = 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  return light > 0.179 ? "#000000" : "#ffffff";
}

function toByte(share: number): number {
  return Math.round(Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0)) * 255);
}

function linear(part: number): number {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}
