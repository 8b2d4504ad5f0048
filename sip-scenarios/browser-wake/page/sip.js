// The part of SIP over WebSocket (RFC 7118) that a phone needs to register and to be called.

class Message {
    constructor(text) {
        const end = text.indexOf("\r\n\r\n");
        const [first, ...rest] = text.slice(0, end).split("\r\n");
        this.first = first;
        this.fields = rest.map((line) => {
            const colon = line.indexOf(":");
            return { name: line.slice(0, colon).trim().toLowerCase(), value: line.slice(colon + 1).trim() };
        });
        this.body = text.slice(end + 4);
    }

    get method() { return this.first.split(" ")[0]; }
    // The status is undefined if the message is a request.
    get status() { return this.method === "SIP/2.0" ? Number(this.first.split(" ")[1]) : undefined; }
    values(name) { return this.fields.filter((field) => field.name === name).map((field) => field.value); }
    field(name) { return this.values(name).join(", "); }
}

export class Line {
    onCall = () => {};
    onTalk = () => {};
    onEnd = () => {};
    onCancel = () => {};
    // Whether calls are answered as soon as they ring.
    answers = true;

    #account;
    #socket;
    #sequence = 0;
    #callID = crypto.randomUUID();
    #tag = token();
    #waiting = new Map();
    // The INVITE of the call that rings.
    #ringing;

    static open(account) {
        const line = new Line();
        line.#account = account;
        line.#socket = new WebSocket(account.server, "sip");
        line.#socket.binaryType = "arraybuffer";
        line.#socket.onmessage = ({ data }) => line.#received(typeof data === "string" ? data : new TextDecoder().decode(data));
        return new Promise((resolve, reject) => {
            line.#socket.onopen = () => resolve(line);
            line.#socket.onerror = () => reject(new Error(`no connection to ${account.server}`));
        });
    }

    // The promise is resolved when the daemon has closed the connection, too.
    close() {
        return new Promise((resolve) => {
            this.#socket.onclose = resolve;
            this.#socket.close();
        });
    }

    // Sends a REGISTER whose Contact has these parameters, and returns the 200.
    async register(parameters) {
        let answer = await this.#sendRegister(parameters, "");
        if (answer.status === 401) {
            const challenge = answer.values("www-authenticate").map(readChallenge).find((one) => one.algorithm === "SHA-256");
            if (!challenge) throw new Error("no challenge for SHA-256");
            answer = await this.#sendRegister(parameters, await this.#authorization(challenge));
        }
        if (answer.status !== 200) throw new Error(`REGISTER was answered with ${answer.first}`);
        return answer;
    }

    #sendRegister(parameters, authorization) {
        const { user, domain, contact } = this.#account;
        const sequence = ++this.#sequence;
        this.#socket.send(
            `REGISTER sip:${domain} SIP/2.0\r\n` +
                `Via: SIP/2.0/WSS ${contact.split("@")[1]};branch=z9hG4bK${token()}\r\n` +
                `Max-Forwards: 70\r\n` +
                `From: <sip:${user}@${domain}>;tag=${this.#tag}\r\n` +
                `To: <sip:${user}@${domain}>\r\n` +
                `Call-ID: ${this.#callID}\r\n` +
                `CSeq: ${sequence} REGISTER\r\n` +
                `Contact: <sip:${contact};transport=ws${parameters}>\r\n` +
                `Expires: 3600\r\n` +
                // The daemon treats a client without User-Agent as an old client, which knows only MD5.
                `User-Agent: page\r\n` +
                authorization +
                `Content-Length: 0\r\n\r\n`,
        );
        return new Promise((resolve) => this.#waiting.set(sequence, resolve));
    }

    // Digest authentication by RFC 7616 and RFC 8760.
    async #authorization({ realm, nonce }) {
        const { user, domain, password } = this.#account;
        const uri = `sip:${domain}`;
        const [own, count] = [token(), "00000001"];
        const secret = await sha256(`${user}:${realm}:${password}`);
        const request = await sha256(`REGISTER:${uri}`);
        const response = await sha256(`${secret}:${nonce}:${count}:${own}:auth:${request}`);
        return (
            `Authorization: Digest username="${user}", realm="${realm}", nonce="${nonce}", uri="${uri}", ` +
            `response="${response}", algorithm=SHA-256, cnonce="${own}", qop=auth, nc=${count}\r\n`
        );
    }

    #received(text) {
        // An empty WebSocket message is a keep-alive.
        if (text.trim() === "") return;
        const message = new Message(text);
        if (message.status >= 200) return this.#waiting.get(Number.parseInt(message.field("cseq")))?.(message);
        switch (message.method) {
            case "INVITE":
                this.#answer(message, "180 Ringing");
                this.#ringing = message;
                this.onCall();
                if (!this.answers) return;
                return this.#answer(message, "200 OK", session);
            case "ACK": return this.onTalk();
            case "CANCEL":
                this.#answer(message, "200 OK");
                this.#answer(this.#ringing, "487 Request Terminated");
                return this.onCancel();
            case "BYE":
                this.#answer(message, "200 OK");
                return this.onEnd();
        }
    }

    #answer(request, status, body = "") {
        const copied = ["via", "record-route", "from", "call-id", "cseq"].flatMap((name) =>
            request.values(name).map((value) => `${name}: ${value}\r\n`),
        );
        const to = request.field("to");
        this.#socket.send(
            `SIP/2.0 ${status}\r\n` +
                copied.join("") +
                `to: ${to}${/;\s*tag=/i.test(to) ? "" : `;tag=${this.#tag}`}\r\n` +
                `contact: <sip:${this.#account.contact};transport=ws>\r\n` +
                (body ? "content-type: application/sdp\r\n" : "") +
                `content-length: ${body.length}\r\n\r\n${body}`,
        );
    }
}

// The phone has no sound, so the answer has no audio.
const session = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";

const readChallenge = (text) =>
    Object.fromEntries([...text.matchAll(/(\w+)=(?:"([^"]*)"|([^\s,]+))/g)].map(([, name, quoted, plain]) => [name, quoted ?? plain]));

const token = () => crypto.randomUUID().replaceAll("-", "").slice(0, 16);

async function sha256(text) {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
