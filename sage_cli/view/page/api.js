// Answers by name: from the server, or in an export from the page itself.

const embedded = document.getElementById("data");
export const held = embedded ? JSON.parse(embedded.textContent) : null;

const known = new Map();

/** An answer that could not be given: what happened, and what to do next. */
export class Refused extends Error {
  constructor(cause, next = null) {
    super(cause);
    this.next = next;
  }
}

/** Return the address of an answer, the same for the same parameters. */
export function address(name, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept.map(([key, value]) => [key, String(value)]).sort());
  return query.size ? `${name}?${query}` : name;
}

/** Return an answer; the same object for as long as nothing has changed. */
export async function get(name, params = {}, options = {}) {
  const where = address(name, params);
  if (held) {
    const { answer } = await import("./held.js");
    return answer(held, name, params, where);
  }
  const before = known.get(where);
  const headers = before ? { "If-None-Match": before.tag } : {};
  if (options.method === "POST") headers["X-Sage-View"] = "1";
  let response;
  try {
    const early = where === "runs" ? globalThis.early : null;
    delete globalThis.early;
    response = early ? await early : await fetch(`api/${where}`, { headers, method: options.method ?? "GET" });
  } catch {
    throw new Refused("the server does not answer", "is `sage view` still running? It may print why it ended");
  }
  if (response.status === 304) return before.value;
  if (response.status === 403) throw new Refused("this page is of an earlier server", "open the address that `sage view` printed");
  let value;
  try { value = await response.json(); } catch { throw new Refused(`the server answered ${response.status}`); }
  if (value.error) throw new Refused(value.error.cause, value.error.next_step);
  known.delete(where);
  known.set(where, { tag: response.headers.get("ETag"), value });
  if (known.size > 60) known.delete(known.keys().next().value);
  return value;
}
