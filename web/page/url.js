// The address holds all state: a path for the page, parameters for the rest. Links of this page change
// the address without a new load; Back works.
import { useLayoutEffect, useReducer } from "preact/hooks";

const subscribers = new Set();
const notify = () => subscribers.forEach((redraw) => redraw());
addEventListener("popstate", notify);

export const parameter = (name) => new URLSearchParams(location.search).get(name) ?? "";

export function go(href, { replace = false } = {}) {
  if (href === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  notify();
}

// Sets parameters of the address; "" leaves one out.
export function set_parameters(values, options) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  go(location.pathname + (query.size ? `?${query}` : ""), options);
}

export function useAddress() {
  const [, redraw] = useReducer((turn) => turn + 1, 0);
  // An effect would start after the next frame, and miss earlier changes.
  useLayoutEffect(() => {
    subscribers.add(redraw);
    return () => subscribers.delete(redraw);
  }, []);
  return location.pathname;
}

// A click on a link of this page.
document.addEventListener("click", (event) => {
  const link = /** @type {any} */ (event.target).closest?.("a[href^='/']");
  const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
  if (!link || !plain || link.hasAttribute("download") || link.dataset.load !== undefined) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
