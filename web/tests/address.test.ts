// The selection in the URL and back.
import { describe, expect, it } from "vitest";
import { changed, emptySelection, fromHash, SCREENS, toHash, type Selection } from "../src/lib/address";

const full: Selection = {
  screen: "swap",
  model: "dates/bahdanau & co",
  text: "10 May 2024?#=%+ 猫\u202e",
  output: "",
  site: "decoder.attention",
  head: -1,
  query: 0,
  key: 12,
  step: 3,
  others: ["a,b", "c"],
  extra: { i: "seven", score: "dot product" },
};

describe("round trip", () => {
  it("keeps everything", () => expect(fromHash(toHash(full))).toEqual(full));
  it("keeps an empty selection", () => expect(fromHash(toHash(emptySelection()))).toEqual(emptySelection()));
  it("keeps every screen", () => {
    for (const screen of SCREENS)
      expect(fromHash(toHash({ ...emptySelection(), screen })).screen).toBe(screen);
  });
});

it("ignores invalid addresses", () => {
  for (const hash of ["", "#", "#/", "#/nowhere?i=x&head=-2&t=1e9&j=", "#watch?%%%"]) {
    expect(fromHash(hash)).toEqual(emptySelection());
  }
});

describe("a change", () => {
  it("of the model clears its site and indices", () => {
    expect(changed(full, { model: "other" })).toMatchObject({
      site: null,
      head: null,
      query: null,
      text: full.text,
    });
  });
  it("of the text clears output and indices", () => {
    expect(changed(full, { text: "x" })).toMatchObject({ output: null, key: null, site: full.site });
  });
  it("of the site keeps what it names", () => {
    expect(changed(full, { site: "s", query: 5 })).toMatchObject({ query: 5, key: null, head: null });
  });
  it("of the screen clears the extras of that screen", () => {
    expect(changed(full, { screen: "watch" })).toMatchObject({ extra: {}, query: 0, key: 12 });
  });
  it("to the same changes nothing", () => expect(changed(full, { text: full.text })).toEqual(full));
});
