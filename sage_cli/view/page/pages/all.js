// Every page by the name that stands in its address.

import { h } from "../dom.js";

export { compare } from "./compare.js";
export { curves } from "./curves.js";
export { passk } from "./passk.js";
export { problem } from "./problem.js";
export { problems } from "./problems.js";
export { run } from "./run.js";
export { runs } from "./runs.js";
export { samples } from "./samples.js";
export { suite, suites } from "./suites.js";
export { sweep } from "./sweep.js";
export { sweeps } from "./sweeps.js";

export const lost = {
  title: () => "Page not found",
  load: async () => null,
  view: () => h("p", {}, "There is no page at this address. ", h("a", { href: "#/runs" }, "All runs"), "."),
};
