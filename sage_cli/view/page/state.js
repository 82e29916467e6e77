// The state of the page is its address after "#": #/page?name=value.

/** Return the page's name and its parameters. */
export function state(hash = location.hash) {
  const [page, query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { page: page || "runs", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** Return the address of a page; empty parameters are left out. */
export function href(page, params = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = kept.map(([key, value]) => `${key}=${encodeURIComponent(value).replace(/%2C/g, ",").replace(/%40/g, "@").replace(/%3A/g, ":")}`).join("&");
  return `#/${page}${query ? `?${query}` : ""}`;
}

/** Change parameters of this page; the step back leads to what was shown before. */
export function change(params) {
  const now = state();
  location.hash = href(now.page, { ...now.params, ...params });
}

/** Change parameters without a step in the history, as while somebody types. */
export function adjust(params) {
  const now = state();
  history.replaceState(null, "", href(now.page, { ...now.params, ...params }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Return the names in a parameter. */
export function listed(text) {
  return (text ?? "").split(",").map((one) => one.trim()).filter(Boolean);
}
