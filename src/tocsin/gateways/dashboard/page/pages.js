/**
 * The pages, in the order of the navigation.
 *
 * `name` is the page's address; the keys `g` and `key` open it. `load` imports its module, whose default export is the
 * component. `count`, if present, returns a number to show beside the title, computed from the latest live update; `tone`
 * is the colour of that number.
 */
export const PAGES = [
  { name: "overview", title: "Overview", key: "o", load: () => import("./pages/overview.js"), count: (tick) => tick.alerts.filter(({ state }) => state === "raised").length, tone: "bad" },
  { name: "messages", title: "Messages", key: "m", load: () => import("./pages/messages.js") },
  { name: "agents", title: "Agents", key: "a", load: () => import("./pages/agents.js") },
  { name: "leases", title: "Leases", key: "l", load: () => import("./pages/leases.js") },
  { name: "inbox", title: "Human inbox", key: "i", load: () => import("./pages/inbox.js"), count: (tick) => tick.escalations + tick.approvals, tone: "warn" },
  { name: "dead-letters", title: "Dead letters", key: "d", load: () => import("./pages/dead-letters.js"), count: (tick) => tick.letters, tone: "bad" },
  { name: "history", title: "History", key: "h", load: () => import("./pages/history.js") },
];
