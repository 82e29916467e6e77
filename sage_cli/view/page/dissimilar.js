// The order of dissimilar texts in an export, as the server computes it (problems_view.py).

const TEXT = 4000; // characters that are compared

/** Return rows: the first, then the one farthest from all before it, and so on. */
export function dissimilarFirst(rows) {
  if (!rows.length) return rows;
  const pairs = rows.map((row) => pairsOf(row.text.slice(0, TEXT)));
  const order = [0], left = rows.map((_, place) => place).slice(1);
  const nearest = rows.map((_, place) => distance(pairs[place], pairs[0]));
  while (left.length) {
    const farthest = left.reduce((best, place) => (nearest[place] > nearest[best] ? place : best));
    order.push(farthest);
    left.splice(left.indexOf(farthest), 1);
    for (const place of left) nearest[place] = Math.min(nearest[place], distance(pairs[place], pairs[farthest]));
  }
  return order.map((place) => rows[place]);
}

function pairsOf(text) {
  const words = text.match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu) ?? [];
  return new Set([...words, ""].map((word, place) => `${words[place - 1] ?? ""}\n${word}`));
}

function distance(a, b) {
  const shared = [...a].filter((pair) => b.has(pair)).length;
  return 1 - shared / (a.size + b.size - shared);
}
