// Elements of the page, drawings in SVG, and the views Plots and Days. All text reaches the page as text nodes.

// Control characters, and characters that change the direction of text or are invisible.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with a visible code in place of each hidden character. */
export function visible(text) {
    return String(text).replace(HIDDEN, (one) => `‹U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

function build(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") node.addEventListener(name, value);
        else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : visible(value));
    }
    put(node, ...children);
    return node;
}

export function element(tag, attributes = {}, ...children) {
    return build(document.createElement(tag), attributes, children);
}

export const heading = (text) => element("h2", { tabindex: "-1" }, text);

export function svg(tag, attributes = {}, ...children) {
    return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Replaces the children of a node. A child that is no node becomes a text node. */
export function put(node, ...children) {
    node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => child instanceof Node ? child : document.createTextNode(visible(child))));
}

/** A name from outside, isolated from the direction of the text around. */
export function named(text, kind = "name") {
    return element("bdi", { class: kind }, text);
}

export function link(view, argument, ...children) {
    return element("a", { href: `#${view}/${encodeURIComponent(argument)}` }, ...children);
}

export function duration(milliseconds) {
    if (milliseconds === null || milliseconds === undefined || !Number.isFinite(milliseconds)) return "–";
    const size = Math.abs(milliseconds);
    if (size < 1) return `${Math.round(milliseconds * 100) / 100} ms`;
    if (size < 10) return `${Math.round(milliseconds * 10) / 10} ms`;
    if (size < 1000) return `${Math.round(milliseconds)} ms`;
    if (size < 120_000) return `${(milliseconds / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
    if (size < 7_200_000) return `${Math.floor(milliseconds / 60_000)} min`;
    return size < 172_800_000 ? `${Math.floor(milliseconds / 3_600_000)} h` : `${Math.floor(milliseconds / 86_400_000)} days`;
}

const two = (number) => String(number).padStart(2, "0");

/** A time of the browser's zone. */
export function moment(milliseconds, isWhole = true) {
    const date = new Date(milliseconds);
    if (Number.isNaN(date.getTime())) return "–";
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
    return isWhole ? `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock}` : clock;
}

export function time(milliseconds, isWhole = true) {
    const date = new Date(milliseconds);
    return element("time", { datetime: Number.isNaN(date.getTime()) ? null : date.toISOString() }, moment(milliseconds, isWhole));
}

/** A table with a caption. A column whose cells are numbers is aligned to the right. */
export function table(caption, heads, rows) {
    const isNumber = heads.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === "number"));
    const cell = (tag, value, column) => element(tag, {
        class: isNumber[column] ? "number" : null, scope: tag === "th" ? "col" : null,
    }, value instanceof Node ? value : typeof value === "number" ? value.toLocaleString("en") : value);
    return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, element("table", {},
        element("caption", {}, caption),
        element("thead", {}, element("tr", {}, ...heads.map((head, column) => cell("th", head, column)))),
        element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((value, column) => cell("td", value, column)))))));
}

// The phases of a push, from its timeline record. Each phase ends at the record's member with this name.
const PHASES = [
    ["sentAfter", "queue", "waited in the queue"], ["answeredAfter", "provider", "the provider answered"],
    ["registeredAfter", "wake", "the phone woke up"], ["invitedAfter", "invite", "INVITE to the phone"],
    ["rangAfter", "invite", "the phone began to ring"], ["endedAfter", "ring", "the call ended"],
];

/** A record of `explain` as a bar in time with a legend; null if the record has no steps. */
export function timeBar(record) {
    const steps = PHASES.filter(([member]) => Number.isFinite(record[member]))
        .map(([member, kind, words]) => ({ at: Math.max(0, record[member] * 1000), words,
            kind: member === "endedAfter" && !Number.isFinite(record.rangAfter) ? "wait" : kind }))
        .sort((one, other) => one.at - other.at);
    const whole = steps.length ? steps[steps.length - 1].at : 0;
    if (!(whole > 0)) return null;
    const bar = svg("svg", { class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img",
        "aria-label": `${duration(whole)}: ${steps.map((step) => `${step.words} after ${duration(step.at)}`).join(", ")}` });
    let start = 0;
    for (const step of steps) {
        const width = Math.max(3, (step.at - start) / whole * 1000);
        bar.append(svg("rect", { class: `part-${step.kind}`, x: start / whole * 1000, y: 0, width, height: 10 },
            svg("title", {}, `${step.words}: ${duration(step.at)}`)));
        start = step.at;
    }
    const legend = steps.map((step) => element("li", {},
        svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: `part-${step.kind}`, width: 10, height: 10 })),
        `${step.words}: ${duration(step.at)}`));
    return element("div", {}, bar, element("ul", { class: "parts" }, ...legend));
}

/** The wake times of a user's devices, one dot for each push. A dot at the upper edge is a push without a wake. */
export function wakePlot(records) {
    const wakes = records.filter((record) => record.kind === "call" && record.sentAfter !== undefined && record.sentAfter !== null);
    if (!wakes.length) return element("p", { class: "quiet" }, "No push for a call is on record.");
    const times = wakes.map((record) => record.registeredAfter ?? record.invitedAfter ?? null);
    const woken = times.filter((one) => one !== null);
    const longest = Math.max(1, ...woken);
    const picture = svg("svg", { class: "small", viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img",
        "aria-label": `${woken.length} of ${wakes.length} pushes woke a phone` },
        ...[10, 90].map((y) => svg("line", { class: "axis", x1: 0, x2: 1000, y1: y, y2: y, "vector-effect": "non-scaling-stroke" })));
    wakes.forEach((record, index) => {
        const one = times[index];
        const width = Math.min(20, 700 / wakes.length);
        const height = one === null ? 80 : Math.max(3, one / longest * 80);
        picture.append(svg("rect", { class: one === null ? "dot-miss" : "dot", width, height, y: 90 - height,
            x: (index + .5) * 1000 / wakes.length - width / 2 },
        svg("title", {}, `${moment(record.requestedAt * 1000)}: ${one === null ? "no wake" : duration(one * 1000)}`)));
    });
    const sorted = [...woken].sort((one, other) => one - other);
    const middle = sorted.length ? duration(sorted[Math.floor(sorted.length / 2)] * 1000) : "–";
    return element("div", {}, picture, element("p", { class: "quiet" },
        `${woken.length} of ${wakes.length} pushes woke a phone. Median: ${middle}. Longest: ${woken.length ? duration(longest * 1000) : "–"}.`));
}

// MARK: The view Plots

const TIMES = [
    ["inviteToPush", "INVITE to push", "From the INVITE until the daemon sent the push."],
    ["pushToRegister", "Push to REGISTER", "From the push until the phone registered."],
    ["registerToAnswer", "REGISTER to answer", "From the REGISTER until somebody answered the call."],
    ["commit", "Commit", "The time of a commit of the store."],
];
const QUANTILES = [["p50", "50 %"], ["p95", "95 %"], ["p99", "99 %"]];
const WINDOWS = 240; // A plot has at most so many points.

let library = null;

/** Loads Chart.js at its first use. */
function chartLibrary() {
    library ??= new Promise((resolve) => document.head.append(element("script", {
        src: "/chart.js", load: () => resolve(window.Chart ?? null), error: () => resolve(null),
    })));
    return library;
}

export class PlotsView {
    constructor(panel, app) {
        Object.assign(this, { panel, app, charts: [], span: "hour", turn: 0, timer: null });
        window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.data && this.draw());
    }

    open(argument) {
        this.span = argument === "day" ? "day" : "hour";
        this.load();
    }

    close() {
        this.turn += 1;
        clearTimeout(this.timer);
    }

    clear() {
        this.close();
        this.drop();
        this.data = null;
        put(this.panel);
    }

    drop() {
        for (const chart of this.charts) chart.destroy();
        this.charts = [];
    }

    async load() {
        clearTimeout(this.timer);
        const turn = ++this.turn;
        try {
            const [data, chart] = await Promise.all([this.app.request("GET", `/v1/plots?span=${this.span}`), chartLibrary()]);
            if (turn !== this.turn) return;
            Object.assign(this, { data, chart });
            this.draw();
        } catch (problem) {
            if (turn !== this.turn) return;
            if (!this.data) put(this.panel, heading("Plots"), this.app.sentence(problem));
            else this.app.say(problem.message);
        }
        const again = () => turn === this.turn && this.load();
        this.timer = setTimeout(() => document.hidden ? document.addEventListener("visibilitychange", again, { once: true }) : again(),
            this.span === "hour" ? 10_000 : 60_000);
    }

    draw() {
        const { data, panel } = this;
        const focus = panel.contains(document.activeElement) ? document.activeElement.id : "";
        this.drop();
        this.style = getComputedStyle(document.documentElement);
        const choice = (span, text) => element("button", {
            type: "button", id: `span-${span}`, "aria-pressed": String(this.span === span), class: this.span === span ? "main" : null,
            click: () => { location.hash = `#plots/${span}`; },
        }, text);
        const parts = [heading("Plots"),
            element("div", { class: "buttons" }, choice("hour", "Last hour"), choice("day", "Last day"))];
        if (!this.chart) {
            parts.push(element("p", { class: "problem" }, "The daemon finds no Chart.js (Debian's package libjs-chart.js), so the page shows figures only."));
        }
        const grid = element("div", { class: "cards plots" });
        for (const [name, title, words] of TIMES) grid.append(this.times(name, title, words));
        grid.append(this.held(), this.woken());
        put(panel, ...parts, element("p", {}), grid);
        if (focus) document.getElementById(focus)?.focus();
    }

    from() { return this.data.from ?? this.data.until - this.data.step * (this.length() - 1); }

    length() { return this.data.series.held?.length ?? 0; }

    /** The points of a series without its gaps. */
    points(series) {
        const [from, step] = [this.from(), this.data.step];
        return (series ?? []).flatMap((value, index) => value === null ? [] : [{ x: (from + index * step) * 1000, y: value }]);
    }

    /** At most one point for each window of time: the largest value of the window. */
    thinned(points) {
        const width = this.data.step * 1000 * Math.max(1, Math.ceil(this.length() / WINDOWS));
        const windows = new Map();
        for (const point of points) {
            const window = Math.floor(point.x / width);
            if (!(windows.get(window)?.y >= point.y)) windows.set(window, point);
        }
        return [...windows.values()];
    }

    times(name, title, words) {
        const series = this.data.series[name] ?? {};
        const lines = QUANTILES.map(([member, label]) => ({ label, points: this.points(series[member]) }));
        const last = lines.map(({ label, points }) => `${label}: ${points.length ? duration(points[points.length - 1].y) : "–"}`);
        return this.card(`plot-${name}`, title, words, lines, `Last: ${last.join(", ")}.`, duration, lines[0].points.length);
    }

    held() {
        const points = this.points(this.data.series.held);
        const most = points.reduce((largest, point) => Math.max(largest, point.y), 0);
        return this.card("plot-held", "Held calls", "Calls that wait or ring.", [{ label: "calls", points }],
            `Last: ${points.length ? points[points.length - 1].y : "–"}, most: ${most}.`, String, points.length);
    }

    card(id, title, words, lines, last, unit, count) {
        const card = element("section", { class: "card", id, "data-points": count, "aria-label": title },
            element("h3", {}, title), element("p", { class: "quiet" }, words));
        if (!count) card.append(element("p", {}, "Nothing happened in this time."));
        else {
            if (this.chart) card.append(this.lineChart(title, lines, unit));
            card.append(element("p", { class: "number" }, `${last} A point is the largest value of ${duration(this.data.step * 1000 * Math.max(1, Math.ceil(this.length() / WINDOWS)))}.`));
        }
        return card;
    }

    colour(name) { return this.style.getPropertyValue(name).trim(); }

    canvas(title, configuration) {
        const canvas = element("canvas", { role: "img", "aria-label": `Plot: ${title}` });
        const box = element("div", { class: "plot" }, canvas);
        // Chart.js measures its box, so the box must be in the document first.
        requestAnimationFrame(() => box.isConnected && this.charts.push(new this.chart(canvas, configuration)));
        return box;
    }

    options(x, y) {
        const grid = { color: this.colour("--line") };
        const ticks = { color: this.colour("--quiet"), maxRotation: 0, autoSkipPadding: 16 };
        return {
            animation: false, maintainAspectRatio: false, normalized: true,
            scales: { x: { grid, ...x, ticks: { ...ticks, ...x.ticks } }, y: { beginAtZero: true, grid, ...y, ticks: { ...ticks, ...y.ticks } } },
            plugins: { legend: { labels: { color: this.colour("--text"), boxWidth: 12 } } },
        };
    }

    lineChart(title, lines, unit) {
        const gap = (this.span === "hour" ? 60 : 3600) * 1000;
        const alone = (points) => points.map((point, index) =>
            (index > 0 && point.x - points[index - 1].x <= gap) || (index + 1 < points.length && points[index + 1].x - point.x <= gap) ? 0 : 2);
        const thinned = lines.map(({ points }) => this.thinned(points));
        const datasets = lines.map(({ label }, index) => ({
            label, data: thinned[index], parsing: false, borderWidth: 1.5, spanGaps: gap, pointRadius: alone(thinned[index]), stepped: unit === String,
            borderColor: this.colour(`--series-${index + 1}`), backgroundColor: this.colour(`--series-${index + 1}`),
        }));
        const isShort = this.data.until - this.from() < 600;
        const options = this.options({ type: "linear", min: this.from() * 1000, max: this.data.until * 1000,
            ticks: { maxTicksLimit: 6, callback: (value) => moment(value, false).slice(0, isShort ? 8 : 5) } }, { ticks: { callback: (value) => unit(value), maxTicksLimit: 6 } });
        options.interaction = { mode: "nearest", axis: "x", intersect: false };
        options.plugins.tooltip = { callbacks: {
            title: (items) => items.length ? moment(items[0].parsed.x) : "", label: (item) => `${item.dataset.label}: ${unit(item.parsed.y)}`,
        } };
        return this.canvas(title, { type: "line", data: { datasets }, options });
    }

    woken() {
        const rows = this.data.woken ?? [];
        const card = element("section", { class: "card", id: "plot-woken", "data-points": rows.length, "aria-label": "Woken phones" },
            element("h3", {}, "Woken phones"), element("p", { class: "quiet" }, "The share of pushes after which the phone registered in time."));
        const share = (row, member) => row.pushes > 0 ? Math.round(row[member] / row.pushes * 1000) / 10 : 0;
        const members = [["within5", "5 s"], ["within10", "10 s"], ["within30", "30 s"]];
        if (!rows.some((row) => row.pushes > 0)) {
            card.append(element("p", {}, "No push was sent in this time."));
            return card;
        }
        if (this.chart) {
            const datasets = members.map(([member, label], index) => ({ label: `within ${label}`, data: rows.map((row) => share(row, member)),
                backgroundColor: this.colour(`--series-${index + 1}`) }));
            card.append(this.canvas("Woken phones", { type: "bar", data: { labels: rows.map((row) => visible(row.provider)), datasets },
                options: this.options({}, { max: 100, ticks: { callback: (value) => `${value} %` } }) }));
        }
        card.append(table("Woken phones by provider", ["Provider", "Pushes", ...members.map(([, label]) => label)],
            rows.map((row) => [named(row.provider), row.pushes, ...members.map(([member]) => `${share(row, member)} %`)])));
        return card;
    }
}

// MARK: Days

/** Writes one field of a CSV file. A spreadsheet would run a text that begins like a formula, so such a text gets an apostrophe. */
export function csvField(value) {
    let text = String(value ?? "");
    if (typeof value !== "number" && /^\s*[=+\-@\t\r\n|%＝＋－＠]/u.test(text)) text = `'${text}`;
    return /[",;\r\n\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export class DaysView {
    constructor(panel, app) {
        Object.assign(this, { panel, app, turn: 0, days: 30, by: "provider" });
        this.clear();
    }

    clear() {
        this.turn += 1;
        const choice = (id, label, value, options, chosen) => element("div", {}, element("label", { for: id }, label),
            element("select", { id, change: (event) => { chosen(event.currentTarget.value); this.load(); } },
                ...options.map(([option, words]) => element("option", { value: option, selected: option === value }, words))));
        this.result = element("div");
        put(this.panel, heading("Days"), element("form", { class: "ask card", submit: (event) => event.preventDefault() },
            choice("days-span", "Time", String(this.days), [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]], (value) => { this.days = Number(value); }),
            choice("days-by", "Wake report by", this.by, [["provider", "provider"], ["app", "app"], ["system", "phone system"]], (value) => { this.by = value; })),
        this.result);
    }

    open() { this.load(); }
    close() { this.turn += 1; }

    async load() {
        const turn = ++this.turn;
        const from = Math.floor(Date.now() / 86_400_000) * 86_400 - (this.days - 1) * 86_400;
        const ask = (path) => this.app.request("GET", path).catch((problem) => problem);
        const [statistics, wakes] = await Promise.all([ask(`/v1/reports/pushes?by=day&from=${from}&format=json`),
            ask(`/v1/reports/wakes?days=${this.days}&by=${this.by}&format=json`)]);
        if (turn !== this.turn) return;
        put(this.result, this.report("statistics", "Pushes by day (UTC). Each figure is a number of devices.", statistics, statistics.statistics,
            ["day", "devices", "sent", "accepted", "failed", "received", "followed", "read"]),
        this.report("wakes", "Wakes. The quantiles are milliseconds from the push to the REGISTER.", wakes, wakes.rows,
            ["name", "pushes", "within5", "within10", "within30", "never", "p50", "p95", "p99"]));
    }

    report(id, caption, answer, rows, columns) {
        const title = { statistics: "Push statistics", wakes: "Wake report" }[id];
        const card = element("section", { class: "card", id, "aria-label": title }, element("h3", {}, title));
        if (answer instanceof Error) {
            card.append(answer.status === 404 ? element("p", { class: "quiet" }, "This daemon does not offer this report.") : this.app.sentence(answer));
        } else if (!rows?.length) card.append(element("p", { class: "quiet" }, "No push is on record in this time."));
        else {
            card.append(table(caption, columns, rows.map((row) => columns.map((name) => {
                const value = row[name];
                return typeof value === "string" ? named(value) : value ?? "–";
            }))), element("div", { class: "buttons" }, element("button", { type: "button", click: () => this.download(id, rows, columns) }, "Download CSV")));
        }
        return card;
    }

    download(id, rows, columns) {
        const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => line.map(csvField).join(","));
        const address = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" }));
        const anchor = element("a", { href: address, download: `sippushd-${id}.csv` });
        document.body.append(anchor);
        anchor.click();
        anchor.remove();
        setTimeout(() => URL.revokeObjectURL(address), 60_000);
    }
}
