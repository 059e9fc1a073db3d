/** Charts, drawn by uPlot on a canvas that is updated in place. */
import { html, useEffect, useRef } from "../lib/html.js";
import UPlot from "../vendor/uplot.js";

const HEIGHT = 180;

const probe = document.createElement("i");
probe.hidden = true;

/** Return a colour of the theme in a form that a canvas accepts. */
export function colour(name) {
  if (!probe.isConnected) document.body.appendChild(probe);
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/**
 * A chart of lines over time.
 *
 * `data` is uPlot's: a column of seconds, then one column per line; `lines` are `{label, colour, width, dash, fill}` with
 * `colour` a custom property of the theme, such as `--accent`; `marks` are horizontal lines `{value, label, colour}`;
 * `format` formats a value of the axis; `label` describes the chart. With `bars`, each value is drawn as a bar for the
 * interval of that many seconds which begins at its time, in UTC.
 */
export function Chart({ data, lines, marks = [], format = String, height = HEIGHT, label, zero = true, log = false, bars = 0 }) {
  const place = useRef();
  const plot = useRef(null);
  const shown = useRef();
  shown.current = { marks, format, bars };
  const shape = JSON.stringify([lines.map((line) => [line.label, line.colour, line.dash]), height, log, bars]);
  useEffect(() => {
    const draw = () => {
      plot.current?.destroy();
      plot.current = new UPlot(options(place.current, shown, lines, height, zero, log), data, place.current);
    };
    draw();
    const resizing = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && plot.current && Math.abs(width - plot.current.width) > 1) plot.current.setSize({ width, height });
    });
    resizing.observe(place.current);
    addEventListener("tocsin:theme", draw);
    return () => {
      resizing.disconnect();
      removeEventListener("tocsin:theme", draw);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  return html`<figure class="chart" aria-label=${label}>
    <div ref=${place} class="chart-plot" role="img" aria-label=${label}></div>
    <figcaption class="legend">
      ${lines.map((line) => html`<span key=${line.label} class="legend-item" data-line=${line.colour}><${Swatch} colour=${line.colour} dash=${line.dash} />${line.label}</span>`)}
      ${marks.map((mark) => html`<span key=${mark.label} class="legend-item"><${Swatch} colour=${mark.colour ?? "--bad"} dash=${true} />${mark.label}</span>`)}
    </figcaption>
  </figure>`;
}

const Swatch = ({ colour: name, dash }) => html`<span class="swatch ${dash ? "dash" : ""}" style=${{ borderColor: `var(${name})` }} aria-hidden="true"></span>`;

function options(element, shown, lines, height, zero, log) {
  const { bars } = shown.current;
  const ink = colour("--ink-2");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: ink, grid, ticks: { ...grid, size: 4 }, font };
  return {
    width: Math.max(200, element.clientWidth),
    height,
    pxAlign: 1,
    ...(bars ? { tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") } : {}),
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: bars ? { time: true, range: ({ data: [at] }) => [at[0] - bars / 2, at[at.length - 1] + bars / 2] } : { time: true },
      y: log
        ? { distr: 3, log: 10, clamp: 1e-5 }
        : { range: (_, low, high) => range(zero ? Math.min(0, low ?? 0) : low, high, shown.current.marks) },
    },
    axes: [
      { ...axis, size: 30, space: 70, values: (_, splits, __, ___, step) => splits.map((at) => moment(at, step)) },
      { ...axis, size: 56, space: 32, values: (_, splits) => splits.map((value) => (value === null ? "" : shown.current.format(value))) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        fill: bars ? colour(line.colour) : line.fill ? colour(`${line.colour}-soft`) : undefined,
        width: line.width ?? 1.75,
        dash: line.dash ? [4, 4] : undefined,
        paths: bars ? UPlot.paths.bars({ size: [0.7, 56] }) : undefined,
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: { draw: [(plot) => mark(plot, shown.current.marks)], init: [tooltip(lines, shown)] },
  };
}

/** Format a time for an axis whose labels are `step` seconds apart. */
function moment(at, step) {
  const time = new Date(at * 1000);
  if (step >= 86400) return time.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined });
}

/** Return the range of the axis, with room above the highest value; it includes a mark when the values are near it. */
function range(low, high, marks) {
  let top = high ?? 0;
  for (const { value } of marks) if (value <= top * 4) top = Math.max(top, value);
  return [low ?? 0, top > 0 ? top * 1.1 : 1];
}

function mark(plot, marks) {
  const { ctx, bbox } = plot;
  for (const { value, colour: name = "--bad" } of marks) {
    const y = plot.valToPos(value, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    ctx.save();
    ctx.strokeStyle = colour(name);
    ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }
}

/** Show the values under the pointer. */
function tooltip(lines, shown) {
  return (plot) => {
    const tip = document.createElement("div");
    tip.className = "chart-tip";
    tip.hidden = true;
    plot.over.appendChild(tip);
    plot.over.addEventListener("mouseleave", () => (tip.hidden = true));
    plot.hooks.setCursor = [
      () => {
        const { idx, left } = plot.cursor;
        if (idx === null || idx === undefined || left < 0) {
          tip.hidden = true;
          return;
        }
        const { bars } = shown.current;
        const at = new Date(plot.data[0][idx] * 1000);
        const time = bars ? at.toISOString().slice(0, bars < 86400 ? 16 : 10).replace("T", " ") : at.toLocaleTimeString("en-GB");
        tip.textContent = [time, ...lines.map((line, place) => `${line.label} ${shown.current.format(plot.data[place + 1][idx] ?? 0)}`)].join("\n");
        tip.hidden = false;
        tip.style.left = `${Math.min(left + 12, plot.over.clientWidth - tip.offsetWidth)}px`;
      },
    ];
  };
}
