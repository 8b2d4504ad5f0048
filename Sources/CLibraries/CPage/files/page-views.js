// The views Now, Why and User. A view has open, close and clear, and asks the daemon through its app.

import { duration, element, heading, link, moment, named, put, table, time, timeBar, visible, wakePlot } from "./page-plots.js";

const END_WORDS = {
    answered: "answered", "answered-elsewhere": "answered by another phone", "declined-elsewhere": "declined for all", refused: "refused by the phone",
    "no-answer": "no answer from the phone", unreachable: "the phone could not be reached", "caller-gave-up": "the caller gave up",
    dismissed: "ended by an operator", "time-over": "no phone came in time", "bound-reached": "the phone took too long to wake",
    "not-waited": "the phone no longer wakes", forwarded: "forwarded", "signed-out": "the phone signed out", "token-dead": "the push token is dead",
    "provider-off": "the provider is switched off", "push-failed": "the push failed", "not-offered": "not offered to a phone",
    stopped: "the daemon stopped", restarted: "the daemon stopped without a shutdown",
};
const endWords = (end) => END_WORDS[end] ?? end;
const GOOD_ENDS = new Set(["answered", "answered-elsewhere"]);
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Which nodes of a cluster show their calls, and which node did not answer. */
function nodeWords(nodes) {
    if (!nodes.length) return "";
    const missing = nodes.filter((node) => node.problem).map((node) => `${node.name} did not answer, so its calls are missing: ${node.problem}.`);
    const [own, ...others] = nodes.filter((node) => !node.problem).map((node) => node.name);
    return [`Calls of ${[own, ...others].join(", ")}. All other values are of ${own}.`, ...missing].join(" ");
}

function details(rows) {
    return element("dl", { class: "details" }, ...rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
        .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** Changes a text only if it differs, so that a reader's selection and focus stay. */
function change(node, text) {
    const shown = visible(text);
    if (node.textContent !== shown) node.textContent = shown;
}

/** A list whose entries keep their nodes, by key, from one snapshot to the next. */
class LiveList {
    constructor(id, empty, make) {
        Object.assign(this, { make, rows: new Map() });
        this.node = element("ul", { class: "list", id });
        this.empty = element("li", { class: "quiet" }, empty);
    }

    show(items, key) {
        const old = this.rows;
        this.rows = new Map();
        const nodes = [];
        for (const item of items) {
            const name = key(item);
            if (this.rows.has(name)) continue;
            const row = old.get(name) ?? this.make(item);
            row.update?.(item);
            this.rows.set(name, row);
            nodes.push(row.node);
        }
        if (!nodes.length) nodes.push(this.empty);
        // The page's nodes are replaced only if their order changes.
        const now = [...this.node.children];
        if (now.length !== nodes.length || now.some((node, index) => node !== nodes[index])) this.node.replaceChildren(...nodes);
    }
}

// MARK: Now

export class NowView {
    constructor(panel, app) {
        Object.assign(this, { panel, app });
        this.clear();
    }

    clear() {
        Object.assign(this, { parts: null, recent: [], seen: new Set(), providers: new Map(), isRefused: false });
        put(this.panel, heading("Now"), element("p", { class: "quiet" }, "Waiting for the daemon …"));
    }

    open() {}

    close() {}

    refused(words) {
        this.parts = null;
        put(this.panel, heading("Now"), element("p", { class: "problem" }, words));
    }

    build() {
        const figures = Object.fromEntries(["held", "asleep", "queued", "inFlight", "registers", "invites", "pushes", "woken"]
            .map((name) => [name, element("dd", { id: `figure-${name}` }, "–")]));
        const figure = (name, words) => element("div", {}, element("dt", {}, words), figures[name]);
        const calls = new LiveList("calls", "No call waits or rings.", (call) => this.call(call));
        const slowest = new LiveList("slowest", "No push was sent in the last minute.", (push) => this.push(push));
        const ended = new LiveList("ended", "No call ended since this page opened.", (call) => this.ended(call));
        const more = element("p", { class: "quiet" });
        const nodes = element("p", { class: "quiet", id: "nodes", role: "status" });
        const cards = element("div", { class: "cards", id: "providers" });
        put(this.panel, heading("Now"),
            element("dl", { class: "figures" }, figure("held", "Held calls"), figure("asleep", "Devices asleep"), figure("queued", "Pushes queued"),
                figure("inFlight", "Pushes in flight"), figure("registers", "REGISTER/s"), figure("invites", "INVITE/s"), figure("pushes", "Pushes/s"),
                figure("woken", "Woken/s")),
            nodes,
            element("div", { class: "columns" },
                element("section", { class: "card", "aria-label": "Held and ringing calls" }, element("h3", {}, "Held and ringing calls"), calls.node, more),
                element("div", {},
                    element("section", { class: "card", "aria-label": "Slowest pushes" }, element("h3", {}, "Slowest pushes of the last minute"), slowest.node),
                    element("section", { class: "card", "aria-label": "Calls that ended" }, element("h3", {}, "Calls that ended"), ended.node))),
            element("h3", {}, "Push providers"), element("p", {}), cards);
        this.parts = { figures, calls, slowest, ended, more, nodes, cards };
    }

    live(now) {
        if (!this.parts) this.build();
        const { figures, calls, slowest, ended, more, nodes } = this.parts;
        const held = now.held?.calls ?? [];
        const total = now.held?.total ?? held.length;
        const values = { held: total, asleep: held.reduce((sum, call) => sum + (call.sleeping || 0), 0), queued: now.pushes?.queued, inFlight: now.pushes?.inFlight, ...now.rates };
        for (const [name, node] of Object.entries(figures)) change(node, (values[name] ?? "–").toLocaleString("en"));
        this.time = now.time;
        calls.show(held, (call) => `${call.node ?? ""} ${call.id}`);
        change(nodes, nodeWords(now.nodes ?? []));
        nodes.className = now.nodes?.some((node) => node.problem) ? "problem" : "quiet";
        change(more, total > held.length ? `The list shows the ${held.length} oldest of ${total} calls.` : "");
        slowest.show(now.pushes?.slowest ?? [], (push) => `${push.provider} ${push.user}`);
        this.take(now.ended ?? []);
        ended.show(this.recent, (call) => call.key);
        this.showProviders(now.providers ?? []);
    }

    /** Adds calls that ended, and tells them to screen readers unless there are many. */
    take(list) {
        const fresh = list.map((call) => ({ ...call, key: `${call.at} ${call.callID} ${call.user} ${call.end}` })).filter((call) => !this.seen.has(call.key));
        for (const call of fresh) this.seen.add(call.key);
        this.recent = [...fresh, ...this.recent].sort((one, other) => other.at - one.at).slice(0, 20);
        if (this.seen.size > 5000) this.seen = new Set([...this.seen].slice(-2000));
        if (fresh.length > 0 && fresh.length <= 3 && !this.panel.hidden) {
            this.app.say(fresh.map((call) => `Call for ${call.user}: ${endWords(call.end)}.`).join(" "));
        }
    }

    call(call) {
        const bar = element("progress", { max: 1, value: 0, "aria-label": `Age of the call for ${call.user}` });
        const age = element("span", { class: "number" });
        const devices = element("span", { class: "quiet" });
        const node = element("li", { "data-call": call.callID },
            element("div", { class: "row" }, element("span", {}, link("user", call.user, named(call.user)), " from ", named(call.caller)), age),
            bar, element("div", { class: "row" }, devices, link("why", call.callID, named(call.callID, "id"))));
        const update = (now) => {
            const whole = Math.max(1, now.ringsUntil - now.receivedAt);
            const passed = Math.max(0, Math.min(whole, this.time - now.receivedAt));
            bar.max = whole;
            bar.value = passed;
            bar.classList.toggle("late", passed > whole * .75);
            change(age, `${Math.floor(passed / 1000)} of ${Math.round(whole / 1000)} s`);
            change(devices, `${now.sleeping} asleep, ${now.ringing} called${now.node ? ` at ${now.node}` : ""}`);
        };
        return { node, update };
    }

    push(push) {
        const age = element("span", { class: "number" });
        const node = element("li", { class: "row" }, element("span", {}, named(push.user), " by ", named(push.provider, "id")), age);
        return { node, update: (now) => change(age, duration(now.milliseconds)) };
    }

    ended(call) {
        return { node: element("li", {},
            element("div", { class: "row" }, named(call.user), element("span", { class: `badge ${GOOD_ENDS.has(call.end) ? "good" : "warn"}` }, endWords(call.end))),
            element("div", { class: "row" }, element("span", { class: "quiet" }, time(call.at, false)), link("why", call.callID, named(call.callID, "id")))) };
    }

    showProviders(list) {
        for (const provider of list) {
            // A card is built anew only if it changes, so that the focus stays on its buttons.
            const text = JSON.stringify(provider);
            const old = this.providers.get(provider.name);
            if (old?.text === text) continue;
            const focus = old?.node.contains(document.activeElement) ? document.activeElement.dataset.action : null;
            const node = this.provider(provider);
            if (old) old.node.replaceWith(node);
            else this.parts.cards.append(node);
            this.providers.set(provider.name, { text, node });
            if (focus) (node.querySelector(`[data-action="${focus}"]`) ?? node.querySelector("button"))?.focus();
        }
        for (const [name, { node }] of this.providers) {
            if (list.some((provider) => provider.name === name)) continue;
            node.remove();
            this.providers.delete(name);
        }
        if (!list.length && !this.parts.cards.childElementCount) put(this.parts.cards, element("p", { class: "quiet" }, "No push provider is configured."));
    }

    provider(provider) {
        const kind = { ok: "good", failing: "bad", disabled: "warn", paused: "warn" }[provider.state] ?? "";
        const card = element("section", { class: "card", "data-provider": provider.name, "data-state": provider.state, "aria-label": `Provider ${provider.name}` },
            element("div", { class: "row" }, element("h4", {}, named(provider.name)), element("span", { class: `badge ${kind}` }, provider.state)),
            provider.says ? element("p", { class: "says" }, provider.says) : null,
            provider.advice ? element("p", { class: "advice" }, provider.advice) : null);
        for (const app of provider.apps ?? []) {
            card.append(details([
                ["App", named(app.name)], ["Accepted pushes", String(app.accepted)], ["Failed pushes", app.failed || null],
                ["Dead tokens", app.deadTokens || null], ["Queued, in flight", app.queued || app.inFlight ? `${app.queued}, ${app.inFlight}` : null],
                ["Credentials", app.credentials?.state], ["Problem", app.problem],
                ["Last refusal", app.refusal ? element("span", {}, app.refusal, app.refusedAt ? ` (${moment(app.refusedAt * 1000)})` : "") : null],
            ]));
        }
        if (!this.app.isReadOnly) {
            const button = (action, words, isDanger) => element("button", { type: "button", class: isDanger ? "danger" : null, "data-action": action,
                "aria-label": `${words} ${provider.name}`, click: (event) => this.order(provider.name, action, words, event.currentTarget) }, words);
            const buttons = provider.isEnabled
                ? [provider.isPaused ? button("resume", "Resume") : button("pause", "Pause"), button("disable", "Disable", true)] : [button("enable", "Enable")];
            card.append(element("div", { class: "buttons" }, ...buttons));
        }
        return card;
    }

    async order(name, action, words, pressed) {
        const path = `/v1/providers/${encodeURIComponent(name)}`;
        const texts = { enable: "The daemon sends pushes by this provider again.", pause: "Pushes by this provider wait until you resume it.",
            resume: "The daemon sends pushes by this provider again." };
        try {
            let text = texts[action];
            if (action === "disable") {
                const numbers = await this.app.request("GET", `${path}/disable`);
                text = `The daemon sends no push by this provider any more. ${count(numbers.contactsEnded, "contact")} would end. `
                    + `${count(numbers.contactsOrdinary, "contact")} would be called without a push.`;
            }
            if (!await this.app.confirmed([`${words} `, named(name), "?"], text, words)) return pressed.focus();
            await this.app.request("POST", `${path}/${action}`);
            this.app.say(`${words} ${name}: done.`);
        } catch (problem) {
            this.app.say(`${words} ${name} failed. ${problem.message}`);
        }
    }
}

// MARK: Views that ask for a name

class AskView {
    constructor(panel, app, name, title, label, help) {
        Object.assign(this, { panel, app, name, turn: 0, asked: "" });
        this.field = element("input", { id: `${name}-field`, name: "name", type: "search", required: true, maxlength: "512", autocomplete: "off",
            autocapitalize: "off", spellcheck: "false", "aria-describedby": `${name}-help` });
        const form = element("form", { class: "ask", role: "search", submit: (event) => this.submitted(event) },
            element("div", {}, element("label", { for: `${name}-field` }, label), this.field), element("button", { type: "submit", class: "main" }, "Search"));
        this.result = element("div", { id: `${name}-result` });
        put(panel, heading(title), element("div", { class: "card" }, form, element("p", { class: "help", id: `${name}-help` }, help)), this.result);
    }

    submitted(event) {
        event.preventDefault();
        const text = this.field.value.trim();
        if (!text) return;
        const hash = `#${this.name}/${encodeURIComponent(text)}`;
        if (location.hash === hash) this.open(text);
        else location.hash = hash;
    }

    open(text) {
        this.asked = text;
        this.field.value = text;
        if (text) this.load();
        else {
            this.turn += 1;
            put(this.result);
        }
    }

    close() { this.turn += 1; }

    clear() {
        this.turn += 1;
        this.field.value = "";
        put(this.result);
    }

    async load() {
        const turn = ++this.turn;
        let parts;
        this.result.setAttribute("aria-busy", "true");
        try {
            parts = await this.answer(this.asked);
        } catch (problem) {
            parts = [this.app.sentence(problem)];
        }
        if (turn !== this.turn) return;
        this.result.setAttribute("aria-busy", "false");
        put(this.result, ...parts);
        const verdict = this.result.querySelector(".verdict");
        if (verdict) this.app.say(verdict.textContent);
    }

    explain(text, limit) {
        return this.app.request("GET", `/v1/explain?name=${encodeURIComponent(text)}&words=true&limit=${limit}`);
    }
}

export class WhyView extends AskView {
    constructor(panel, app) {
        super(panel, app, "why", "Why did my phone not ring?", "User, number or Call-ID",
            "Also the code of a push, or the address from which a refused request came.");
    }

    async answer(text) {
        const report = await this.explain(text, 20);
        const words = report.words ?? { lines: [], verdict: "", advice: "" };
        const parts = [element("section", { class: "card", id: "verdict", "aria-label": "Verdict" },
            element("p", { class: "verdict" }, words.verdict), words.advice ? element("p", { class: "advice" }, words.advice) : null)];
        const isGeneral = (line) => line.record === null || line.record === undefined;
        // A line before the lines of a record is the heading of a call. The cards of the records have headings of their own.
        const general = words.lines.filter((line, index) => isGeneral(line) && isGeneral(words.lines[index + 1] ?? line));
        if (general.length) parts.push(element("section", { class: "card", "aria-label": "State" }, element("h3", {}, "State now"), this.lines(general)));
        const records = report.records ?? [];
        const order = records.map((_, index) => index).sort((one, other) => records[other].requestedAt - records[one].requestedAt);
        for (const index of order) {
            const record = records[index];
            const lines = words.lines.filter((line) => line.record === index);
            const end = record.end ? endWords(record.end) : record.refusal ? "refused" : "under way";
            parts.push(element("section", { class: "card", "data-record": index, "aria-label": `Record of ${moment(record.requestedAt * 1000)}` },
                element("div", { class: "row" }, element("h3", {}, time(record.requestedAt * 1000)), element("span", {
                    class: `badge ${GOOD_ENDS.has(record.end) ? "good" : record.end || record.refusal ? "warn" : ""}` }, end)),
                details([["User", link("user", record.aor, named(record.aor))], ["Caller or called", record.peer ? named(record.peer) : null],
                    ["Call-ID", record.callID ? named(record.callID, "id") : null], ["Device", record.deviceName ? named(record.deviceName, "id") : null],
                    ["Provider", record.app ? named(record.app, "id") : null], ["Reason", record.reason ? element("bdi", {}, record.reason) : null]]),
                timeBar(record), lines.length ? this.lines(lines) : null));
        }
        return parts;
    }

    lines(list) {
        return element("ul", { class: "steps" }, ...list.flatMap((line) => [
            line.text ? element("li", {}, element("bdi", {}, line.text)) : null,
            line.advice ? element("li", { class: "advice" }, element("bdi", {}, line.advice)) : null,
        ]));
    }
}

export class UserView extends AskView {
    constructor(panel, app) {
        super(panel, app, "user", "User", "User", "A name such as alice@example.net. A name without a domain is a user of the first domain.");
    }

    async answer(text) {
        const report = await this.explain(text, 100);
        if (!report.isUser) return [element("p", { class: "problem" }, "No user of this name is in the daemon's domains.")];
        const name = report.name;
        const path = `/v1/users/${encodeURIComponent(name)}`;
        const [devices, bucket] = await Promise.all([this.app.request("GET", `${path}/devices`), this.app.request("GET", `${path}/bucket`)]);
        const cards = devices.map((device) => this.device(device, path, (report.records ?? []).filter((record) => record.deviceName === device.name)));
        return [
            element("section", { class: "card", "aria-label": "User" }, element("h3", {}, named(name)),
                report.words?.verdict ? element("p", { class: "verdict" }, report.words.verdict) : null,
                report.words?.advice ? element("p", { class: "advice" }, report.words.advice) : null, element("p", {}, link("why", name, "Why did this user's phone not ring?"))),
            element("h3", {}, count(devices.length, "device")), element("p", {}), element("div", { class: "cards", id: "devices" }, ...cards), element("p", {}),
            element("section", { class: "card", id: "missed", "aria-label": "Missed calls" }, element("h3", {}, count(bucket.length, "missed call")),
                bucket.length ? table("Missed calls that the phones do not know yet", ["Time", "Caller", "Devices", "State"], bucket.map((call) => [
                    time(call.date * 1000), named(call.caller), (call.devices ?? []).join(", "), call.isOver ? "over" : "active"])) : null),
        ];
    }

    device(device, path, records) {
        const kind = { awake: "good", asleep: "", unknown: "warn" }[device.state] ?? "";
        const card = element("section", { class: "card", "data-device": device.name, "aria-label": `Device ${device.name}` },
            element("div", { class: "row" }, element("h4", {}, named(device.name)), element("span", { class: `badge ${kind}` }, device.state)),
            details([["User-Agent", device.userAgent ? named(device.userAgent) : "none"], ["Contact", element("bdi", {}, device.contact)],
                ["Registered", time(device.registeredAt * 1000)], ["Push token", device.token ? element("bdi", {}, device.token) : "none"], ["App", device.app],
                ["Last push", device.lastPushAt ? element("span", {}, time(device.lastPushAt * 1000), device.lastPush ? `: ${device.lastPush}` : "") : "none"]]),
            element("h4", {}, "Wake times"), wakePlot(records));
        if (!this.app.isReadOnly) {
            card.append(element("div", { class: "buttons" }, element("button", { type: "button", class: "danger", "data-action": "remove",
                "aria-label": `Remove device ${device.name}`, click: (event) => this.remove(device, path, event.currentTarget) }, "Remove")));
        }
        return card;
    }

    async remove(device, path, pressed) {
        const text = ["The device gets no calls until it registers again. User-Agent: ", named(device.userAgent ?? "none")];
        if (!await this.app.confirmed(["Remove device ", named(device.name), "?"], text, "Remove")) return pressed.focus();
        try {
            await this.app.request("DELETE", `${path}/devices/${encodeURIComponent(device.id)}`);
            this.app.say(`Device ${device.name} is removed.`);
            await this.load();
            this.panel.focus();
        } catch (problem) {
            this.app.say(`Device ${device.name} could not be removed. ${problem.message}`);
        }
    }
}
