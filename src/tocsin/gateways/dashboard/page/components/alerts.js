/** The alerts: metrics over their limits, and open escalations. */
import { Card, Chip } from "./basics.js";
import { useNow } from "../lib/clock.js";
import { duration, measure, metricName, millis } from "../lib/format.js";
import { html } from "../lib/html.js";
import { live } from "../lib/live.js";
import { href } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const STATES = { breached: ["warn", "over limit"], raised: ["bad", "raised"], easing: ["warn", "easing"] };

export function Alerts() {
  const { alerts, escalations, health } = useStore(live, ({ tick, hello }) => ({ alerts: tick?.alerts ?? [], escalations: tick?.escalations ?? 0, health: hello?.health }));
  const now = useNow();
  if (!health || (!alerts.length && !escalations)) return null;
  return html`<${Card} title="Alerts" class=${`alerts ${alerts.some(({ state }) => state === "raised") ? "raised" : ""}`}>
    <ul class="plain">
      ${alerts.map((alert) => {
        const [tone, label] = STATES[alert.state];
        return html`<li key=${alert.metric} class="row">
          <${Chip} tone=${tone}>${label}<//>
          <strong>${metricName(alert.metric)}</strong>
          <span>${measure(alert.metric, alert.value)}, <span class="muted">${standing(alert, health, now)}</span></span>
        </li>`;
      })}
      ${escalations > 0 && html`<li class="row"><${Chip} tone="warn">open<//><a href=${href("inbox")}>${escalations} ${escalations === 1 ? "escalation" : "escalations"}</a></li>`}
    </ul>
  <//>`;
}

/** Say how a value stands to its limit, for how long, and what happens next. */
export function standing({ metric, value, limit, state, since }, { sustained_s: sustained, clear_share: share, clear_s: clear }, now) {
  const lasted = duration(Math.max(0, Math.round((now - millis(since)) / 1000)));
  const most = measure(metric, limit);
  if (state === "breached") return `over the limit of ${most} for ${lasted}; an alert is raised after ${duration(sustained)}`;
  if (state === "easing") return `back under the limit of ${most} for ${lasted}; the alert ends after ${duration(clear)}`;
  if (value > limit) return `over the limit of ${most}`;
  return `under the limit of ${most}, but the alert ends only under ${measure(metric, limit * share)}`;
}
