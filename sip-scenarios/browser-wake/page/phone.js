// The behaviour of the phone: the page registers with a web push subscription, closes its connection, and registers again after a
// push. The page's address contains the account. With the mode "stays", the page keeps its first connection to the daemon and
// gets its calls on the first connection. With "loses", the page's connection breaks while the page rings, and the page answers
// on the next connection.
import { Line } from "./sip.js";

const account = Object.fromEntries(new URLSearchParams(location.search));
// The Contact does not change while the page is open, so that the page refreshes its own registration.
account.contact = `${account.user}@${crypto.randomUUID()}.invalid`;

// Asks the daemon for its public key for pushes, subscribes to pushes that are signed with this key, and registers with the
// subscription (RFC 8599).
async function subscribeAndRegister() {
    const line = await Line.open(account);
    const offer = await line.register(";pn-provider=webpush");
    const key = /\+sip\.vapid="([^"]+)"/.exec(offer.field("feature-caps"))?.[1];
    if (!key) throw new Error("the daemon names no key for web push");
    const subscription = await subscribe(key);
    const push = `;pn-provider=webpush;pn-prid=${subscription.endpoint};pn-param=${subscription.p256dh}.${subscription.auth}`;
    if (account.stays) answer(line);
    await line.register(push);
    if (!account.stays) await line.close();
    return push;
}

// Replaces PushManager.subscribe(), which would ask a push service on the Internet.
async function subscribe(key) {
    const answer = await fetch("subscription", { method: "PUT", body: JSON.stringify({ vapid: key }) });
    if (!answer.ok) throw new Error(`no subscription: ${answer.status}`);
    return answer.json();
}

async function comeBack(push) {
    const line = await Line.open(account);
    if (account.loses) ring(line, push);
    else answer(line);
    if (account.answers === "no") line.answers = false;
    await line.register(push);
    console.log("the page is back");
}

// The connection breaks while the page rings, and the page's answer to the call is lost.
function ring(line, push) {
    line.answers = false;
    line.onCall = async () => {
        console.log("the phone rings, and its connection goes");
        await line.close();
        const next = await Line.open(account);
        answer(next);
        await next.register(push);
        console.log("the page is back once more");
    };
}

function answer(line) {
    line.onCall = () => console.log("the phone rings");
    line.onTalk = () => console.log("the call is answered");
    line.onEnd = () => console.log("the call is over");
    line.onCancel = () => console.log("the caller has given up");
}

let parameters;
navigator.serviceWorker.addEventListener("message", ({ data }) => {
    console.log(`a push of type ${data?.type}`);
    if (data?.type === "invite" && !account.stays) comeBack(parameters);
});
await navigator.serviceWorker.register("worker.js");
await navigator.serviceWorker.ready;
parameters = await subscribeAndRegister();
console.log(account.stays ? "the page stays" : "the page sleeps");
