// The session of the operators' page: login, tabs, requests, the live stream and dialogs. The operators' page never
// stores an API key.

import { DaysView, PlotsView, element, put } from "./page-plots.js";
import { NowView, UserView, WhyView } from "./page-views.js";

const part = (id) => document.getElementById(id);
const NAMES = ["now", "plots", "why", "user", "days"];
const SILENCE = 10_000; // Milliseconds without an event after which the stream is treated as lost.
const HIDDEN = 60_000; // Milliseconds after which a hidden page gives its place at the stream to others.

let session = null;
let current = null;
let stream = null;

/** The error for an HTTP request that the daemon did not serve. The HTTP status is 0 if no answer came. */
class Problem extends Error {
    constructor(status, message, retryAfter = 0) {
        super(message);
        Object.assign(this, { status, retryAfter });
    }
}

async function problemOf(answer) {
    let words = "";
    try {
        const body = await answer.json();
        words = [body.title, body.detail].filter((text) => typeof text === "string").join(": ");
    } catch {
        // The answer has no problem details.
    }
    const retryAfter = Math.min(600, Math.max(0, Number(answer.headers.get("Retry-After")) || 0));
    if (answer.status === 403) words = `Not allowed${words ? `: ${words}` : "."}`;
    return new Problem(answer.status, words || `The daemon answered ${answer.status}.`, retryAfter);
}

async function request(method, path, body) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (method !== "GET" && session) headers["X-Session-Token"] = session.token;
    let answer;
    try {
        answer = await fetch(path, {
            method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", cache: "no-store", redirect: "error",
        });
    } catch {
        throw new Problem(0, "The daemon cannot be reached.");
    }
    if (!answer.ok) {
        const problem = await problemOf(answer);
        if (answer.status === 401 && session) end("The session ended. Log in again.");
        throw problem;
    }
    if (answer.status === 204) return null;
    const text = await answer.text();
    try {
        return text ? JSON.parse(text) : null;
    } catch {
        throw new Problem(answer.status, "The daemon's answer is not JSON.");
    }
}

function say(text) { put(part("status"), text); }

function banner(text) {
    put(part("banner"), text);
    part("banner").hidden = !text;
}

/** Asks the operator before a change. The result is true if the operator confirms the question. */
function confirmed(title, text, action) {
    const dialog = part("dialog");
    put(part("dialog-title"), ...[title].flat());
    put(part("dialog-text"), ...[text].flat());
    put(part("dialog-confirm"), action);
    return new Promise((resolve) => {
        const finish = (answer) => { dialog.close(); resolve(answer && session !== null); };
        part("dialog-confirm").onclick = () => finish(true);
        part("dialog-cancel").onclick = () => finish(false);
        // The event `close` comes late, perhaps after the next question has opened the dialog again.
        dialog.oncancel = () => resolve(false);
        dialog.showModal();
    });
}

const app = {
    request, say, confirmed,
    get isReadOnly() { return session?.isReadOnly !== false; },
    get domains() { return session?.domains ?? null; },
    sentence: (problem) => element("p", { class: "problem", role: "alert" }, problem.message),
};

const views = {
    now: new NowView(part("view-now"), app), plots: new PlotsView(part("view-plots"), app), why: new WhyView(part("view-why"), app),
    user: new UserView(part("view-user"), app), days: new DaysView(part("view-days"), app),
};

// MARK: Session

function begin(body) {
    session = body;
    part("login").hidden = true;
    part("views").hidden = false;
    part("who").hidden = false;
    put(part("who-name"), element("bdi", {}, body.name), body.isReadOnly ? " (read only)" : "");
    put(part("login-problem"));
    route();
    connect();
}

/** Returns to the login form, and removes all data of the session from the page. */
function end(text) {
    session = null;
    disconnect();
    if (part("dialog").open) part("dialog").close();
    for (const name of NAMES) views[name].clear();
    current = null;
    part("views").hidden = true;
    part("who").hidden = true;
    part("connection").hidden = true;
    part("login").hidden = false;
    banner("");
    say("");
    put(part("login-problem"), text);
    part("key").focus();
}

part("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = part("key");
    const key = field.value.trim();
    field.value = "";
    put(part("login-problem"));
    try {
        begin(await request("POST", "/session", { key }));
        part(`tab-${current}`).focus();
    } catch (problem) {
        const later = problem.retryAfter ? ` Try again in ${problem.retryAfter} s.` : "";
        const words = problem.status === 401 ? "The daemon does not know this key." : problem.status === 429 ? "Too many wrong logins." : problem.message;
        put(part("login-problem"), words + later);
        field.focus();
    }
});

part("logout").addEventListener("click", async () => {
    try {
        await request("DELETE", "/session");
        // The page's address (URL) may name a user or a call.
        history.replaceState(null, "", "/");
        end("");
        say("You are logged out.");
    } catch (problem) {
        if (session) say(`The logout failed: ${problem.message}`);
    }
});

// MARK: Tabs

/** Shows the view that the address names, such as `#why/CALL-ID`. */
function route() {
    if (!session) return;
    const [name, ...rest] = location.hash.slice(1).split("/");
    const chosen = NAMES.includes(name) ? name : "now";
    let argument = "";
    try {
        argument = decodeURIComponent(rest.join("/"));
    } catch {
        // The address was written by hand and is no valid encoding.
    }
    const isOther = current !== chosen;
    if (current && isOther) views[current].close();
    current = chosen;
    for (const one of NAMES) {
        const tab = part(`tab-${one}`);
        tab.setAttribute("aria-selected", String(one === chosen));
        tab.tabIndex = one === chosen ? 0 : -1;
        part(`view-${one}`).hidden = one !== chosen;
    }
    document.title = `${part(`tab-${chosen}`).textContent} – sippushd`;
    views[chosen].open(argument);
    // A link inside a view leads to another view, so the focus follows.
    if (isOther && !document.activeElement?.closest("#tabs, #login")) part(`view-${chosen}`).focus();
}

window.addEventListener("hashchange", route);
part("skip").addEventListener("click", (event) => {
    event.preventDefault();
    part("content").focus();
});
part("tabs").addEventListener("keydown", (event) => {
    const place = NAMES.indexOf(current);
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: NAMES.length - 1, " ": place }[event.key];
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const name = NAMES[(next + NAMES.length) % NAMES.length];
    part(`tab-${name}`).focus();
    location.hash = `#${name}`;
});

// MARK: The live stream

/** The events of a stream of server-sent events. */
async function* events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (true) {
        const { value, done } = await reader.read();
        if (done) return;
        rest += value;
        if (rest.length > 4_000_000) throw new Error("an event is too long");
        const blocks = rest.split(/\r?\n\r?\n/);
        rest = blocks.pop();
        for (const block of blocks) {
            const event = { name: "message", data: "" };
            for (const line of block.split(/\r?\n/)) {
                if (line.startsWith("event:")) event.name = line.slice(6).trim();
                else if (line.startsWith("data:")) event.data += line.slice(5);
            }
            yield event;
        }
    }
}

function connection(text, isLost) {
    part("connection").hidden = false;
    put(part("connection"), text);
    part("connection").classList.toggle("lost", isLost);
}

const pause = (time, signal) => new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

function lost(text) {
    connection("not live", true);
    banner(text);
}

/** Reads one stream of the daemon's events until the stream ends. Returns the time to wait before the next try, or null for no further try. */
async function readStream(signal, state) {
    const attempt = new AbortController();
    const give = () => attempt.abort();
    signal.addEventListener("abort", give, { once: true });
    let timer = setTimeout(give, SILENCE);
    try {
        const answer = await fetch("/v1/live", { signal: attempt.signal, cache: "no-store", credentials: "same-origin", headers: { Accept: "text/event-stream" } });
        if (answer.status === 401) {
            end("The session ended. Log in again.");
            return null;
        }
        if (!answer.ok) {
            const problem = await problemOf(answer);
            if (signal.aborted) return null;
            if (answer.status === 403 || answer.status === 404) {
                connection("not live", true);
                views.now.refused(app.domains ? "This key is for some domains. The view Now needs a key for the whole daemon." : problem.message);
                return null;
            }
            lost(`The live view waits: ${problem.message}`);
            return Math.max(state.wait, problem.retryAfter * 1000);
        }
        for await (const event of events(answer.body)) {
            clearTimeout(timer);
            timer = setTimeout(give, SILENCE);
            if (signal.aborted) return null;
            if (event.name === "now") {
                const snapshot = JSON.parse(event.data);
                state.wait = 1000;
                connection("live", false);
                banner(snapshot.store?.obstacle ? `The store accepts no changes: ${snapshot.store.obstacle}` : "");
                views.now.live(snapshot);
            } else if (event.name === "bye") {
                const reason = String(JSON.parse(event.data).reason ?? "");
                if (reason === "session ended" || reason === "key removed") {
                    end(reason === "key removed" ? "The key was removed, so the session ended." : "The session ended. Log in again.");
                    return null;
                }
                lost("The daemon stops. The page connects again as soon as the daemon runs.");
                return state.wait;
            }
        }
    } catch {
        // The connection broke, was silent for too long, or this page gave it up.
    } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", give);
        attempt.abort();
    }
    if (signal.aborted) return null;
    lost("The connection to the daemon is lost. The figures are old. The page connects again by itself.");
    return state.wait;
}

async function follow(signal) {
    const state = { wait: 1000 };
    while (!signal.aborted) {
        const wait = await readStream(signal, state);
        if (wait === null) return;
        state.wait = Math.min(2 * state.wait, 15_000);
        await pause(wait, signal);
    }
}

function connect() {
    disconnect();
    stream = new AbortController();
    follow(stream.signal);
}

function disconnect() {
    stream?.abort();
    stream = null;
}

let hiding = null;
document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
        hiding = setTimeout(() => {
            disconnect();
            if (session) connection("paused", true);
        }, HIDDEN);
    } else if (session && !stream) connect();
});
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

try {
    begin(await request("GET", "/session"));
} catch (problem) {
    end(problem.status === 401 ? "" : problem.message);
}
