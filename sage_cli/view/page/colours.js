// The look of a policy: the server gives it by run, so it is the same on every page.

// Okabe and Ito (2008), as in the figures of reports
export const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
export const DASHES = ["", "5 2", "1.5 1.5", "6 2 1.5 2", "9 2", "1 3", "4 1 1 1 1 1", "7 1", "3 3"];
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "wye", "plus", "times"];

export const GRADES = { right: "✓", wrong: "✗", unparseable: "?", timeout: "⏱", error: "!", ungraded: "·" };

/** Return a look's colour; an initial policy is drawn in ink. */
export function colour(look) {
  return look.colour === null ? "currentColor" : COLOURS[look.colour];
}

/** Return a look's dashes for a line. */
export function dash(look) {
  return DASHES[look.dash % DASHES.length];
}

/** Return a look's symbol for a point. */
export function symbol(look) {
  return SYMBOLS[((look.colour ?? 0) + look.dash) % SYMBOLS.length];
}
