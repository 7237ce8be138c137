// The position of a number: quantity, key and dimension (the query is that of the screen); addresses such as `score[2,5]`.
export const QUANTITIES = ["query", "key", "value", "score", "allowed", "weight", "product", "context"] as const;
export type Quantity = (typeof QUANTITIES)[number];

type Axis = "query" | "key" | "dimension";
export const AXES: Record<Quantity, readonly Axis[]> = {
  query: ["query", "dimension"],
  key: ["key", "dimension"],
  value: ["key", "dimension"],
  score: ["query", "key"],
  allowed: ["query", "key"],
  weight: ["query", "key"],
  product: ["query", "key", "dimension"],
  context: ["query", "dimension"],
};

export interface NumberPosition {
  quantity: Quantity;
  key: number | null;
  dimension: number | null;
}

export interface NumberLink {
  quantity: Quantity;
  indices: Record<Axis, number | null>;
  open: Axis | null;
}

const isQuantity = (name: string | undefined): name is Quantity => QUANTITIES.some((each) => each === name);

/** Parses the end of an address; an index that is missing or ":" is open (a vector). */
export function readAddress(address: string): NumberLink | null {
  const match = /(\w+)\[([\d,:\s]*)\]$/.exec(address.trim());
  const quantity = match?.[1];
  if (!match || !isQuantity(quantity)) return null;
  const parts = (match[2] ?? "").split(",").map((part) => part.trim());
  const indices: Record<Axis, number | null> = { query: null, key: null, dimension: null };
  let open: Axis | null = null;
  AXES[quantity].forEach((axis, position) => {
    const part = parts[position];
    if (part !== undefined && /^\d+$/.test(part)) indices[axis] = Number(part);
    else open ??= axis;
  });
  return { quantity, indices, open };
}

/** `score[2,5]`: the short address of a number, as in the server's addresses after site and head. */
export function shortAddress(position: NumberPosition, query: number): string {
  const indices = AXES[position.quantity].map((axis) => (axis === "query" ? query : (position[axis] ?? 0)));
  return `${position.quantity}[${indices.join(",")}]`;
}

/** A position with only the indices that its quantity has; null where one of them is missing. */
export function positionOf(quantity: string | undefined, key: number | null, dimension: number | null): NumberPosition | null {
  if (!isQuantity(quantity)) return null;
  const axes = AXES[quantity];
  if ((axes.includes("key") && key === null) || (axes.includes("dimension") && dimension === null)) return null;
  return {
    quantity,
    key: axes.includes("key") ? key : null,
    dimension: axes.includes("dimension") ? dimension : null,
  };
}

export const samePosition = (one: NumberPosition | null, other: NumberPosition | null): boolean =>
  one !== null &&
  other !== null &&
  one.quantity === other.quantity &&
  one.key === other.key &&
  one.dimension === other.dimension;
