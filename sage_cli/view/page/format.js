// Numbers, times and sizes as people read them.

/** Return a value for a cell: numbers with a few digits, nothing for null. */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return number(value);
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** Return a number with four digits, small and large ones in scientific notation. */
export function number(value) {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 1e6 ? String(value) : value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}

/** Return a duration. */
export function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 90) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

/** Return a time of day with its date, in the reader's zone. */
export function time(text) {
  const when = text ? new Date(text) : null;
  if (!when || Number.isNaN(when.getTime())) return "";
  const pad = (one) => String(one).padStart(2, "0");
  return `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())} ${pad(when.getHours())}:${pad(when.getMinutes())}`;
}

/** Return a count with a noun that agrees. */
export function count(value, noun, plural = `${noun}s`) {
  return `${value.toLocaleString("en")} ${value === 1 ? noun : plural}`;
}

/** Return a share as a percentage. */
export function percent(value) {
  return `${(100 * value).toFixed(1)} %`;
}
