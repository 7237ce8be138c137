// The name of one raw token: its text where it is a whole piece, else the token as the system sees it.
import { clean, pieceText } from "../../lib/pieces";
import type { Side } from "../../lib/types";

export function tokenName(side: Side, index: number): string {
  const piece = side.pieces.find(({ first, last }) => first <= index && index <= last);
  const isWhole = piece !== undefined && !piece.mark && piece.first === piece.last;
  return isWhole ? pieceText(piece.text) : clean(side.tokens[index] ?? "");
}
