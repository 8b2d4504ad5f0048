import Bytes
import Collections
import JSON
import Settings
import TestSupport
import Testing
import Timekeeping

@testable import PushDelivery

private let keys = "\(browserKey).\(browserSecret)"

private func endpoint(_ url: String, param: String = keys) -> PushToken { token(.webPush, url, param: param) }

private func settings(_ more: String = "any-host: true") throws -> PushSettings {
    let yaml = """
        webpush: {enabled: true, vapid-key-file: /k.pem, vapid-contact: "mailto:a@example.net", \(more)}
        """
    return try PushSettings(yaml: Array(yaml.utf8), file: "push.yaml")
}

private func problem(with url: String, param: String = keys, _ more: String = "any-host: true") throws -> TokenProblem?
{
    PushAcceptance(try settings(more)).problem(with: endpoint(url, param: param))
}

@Suite("Hosts that phones choose (T46)")
struct UnifiedPushHostTests {
    @Test(arguments: [
        "https://up.example.org/abc?up=1", "https://ntfy.sh/upAbCd", "https://ntfy.sh:443/upAbCd",
        "https://a.b.c.example.com/", "https://xn--bcher-kva.example/up",
    ])
    func `any public name is accepted, with keys`(url: String) throws {
        #expect(try problem(with: url) == nil)
        let directory = PushDirectory(try settings())
        let app = try #require(directory.app(for: endpoint(url)).flatMap { directory[$0] })
        #expect(app.name == "webpush/unifiedpush")
        #expect(try problem(with: url, "hosts: [push.example.net]") == .webPushResource)
    }

    /// Spellings of addresses that some programs read as an address of this machine or of an inside network, and other
    /// URLs that lead nowhere useful.
    @Test(arguments: [
        "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/",
        "https://0177.0.0.1/", "https://127.0.0.0x1/", "https://10.0.0.1/", "https://8.8.8.8/", "https://0/",
        "https://0.0.0.0/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/", "https://[fe80::1%25eth0]/", "https://[fd00::1]:443/", "https://localhost/",
        "https://intranet/", "https://localhost./", "https://up.example.org./", "https://up..example.org/",
        "https://user@up.example.org/", "https://up.example.org@127.0.0.1/", "https://up.example.org\\@127.0.0.1/",
        "https://%31%32%37.0.0.1/", "https://127.0.0.1.:443/", "https://up.example.org:8443/",
        "https://up.example.org:22/", "https://up.example.org:0443/", "https://up.example.org:/",
        "https://up.example.org", "https:///up", "http://up.example.org/", "ftp://up.example.org/",
        "https://up.example.org#/", "https://UP.example.org/", "https://up_1.example.org/", "https://１２７.0.0.1/",
        "https://up.example.123/", "https://up.example.0x7f/",
    ])
    func `no other spelling is accepted`(url: String) throws {
        #expect(try problem(with: url) != nil)
        #expect(PushDirectory(try settings()).app(for: endpoint(url)) == nil)
    }

    @Test func `a further port needs a setting, and a private host its own`() throws {
        let url = "https://up.example.org:8443/x"
        #expect(try problem(with: url) == .webPushHost)
        #expect(try problem(with: url, "any-host: true, any-host-ports: [8443]") == nil)
        #expect(try problem(with: url, "any-host-ports: [8443]") == .webPushResource)
        #expect(try problem(with: "https://up.lan/x", "private-hosts: [up.lan]") == nil)
        #expect(try problem(with: "https://up.lan:8443/x", "private-hosts: [up.lan]") == .webPushResource)
        #expect(try problem(with: "https://127.0.0.1:8443/x", "private-hosts: [\"127.0.0.1:8443\"]") == nil)
        #expect(try problem(with: "https://other.lan/x", "private-hosts: [up.lan]") == .webPushResource)
    }

    @Test(arguments: ["", "x", "\(browserKey).", "\(browserKey)", ".\(browserSecret)"])
    func `a device without keys is refused, except at a listed host`(param: String) throws {
        #expect(try problem(with: "https://ntfy.sh/up", param: param) == .webPushKeys)
        #expect(try problem(with: "https://up.lan/up", param: param, "private-hosts: [up.lan]") == .webPushKeys)
        let listed = "https://updates.push.services.mozilla.com/wpush/v2/x"
        #expect(try problem(with: listed, param: param) == nil)
        let directory = PushDirectory(try settings())
        #expect(directory.app(for: endpoint(listed, param: param)).flatMap { directory[$0] }?.name == "webpush")
    }

    @Test func `an endpoint has at most a thousand bytes`() throws {
        let base = "https://ntfy.sh/"
        let longest = base + String(repeating: "a", count: 1000 - base.utf8.count)
        #expect(try problem(with: longest) == nil)
        #expect(try problem(with: longest + "a") == .webPushHost)
    }

    @Test func `without the settings nothing is new`() throws {
        let directory = PushDirectory(try settings("hosts: [push.example.net]"))
        #expect(directory.apps.map(\.name) == ["webpush"])
        #expect(directory.apps.first?.chosenHosts == nil)
    }

    @Test func `a proxy would look names up itself, so it cannot be used`() throws {
        let proxy = "proxy: \"http://proxy.example.net:3128\""
        let webpush = "enabled: true, vapid-key-file: /k.pem, vapid-contact: \"mailto:a@example.net\", any-host: true"
        for yaml in ["webpush: {\(webpush), \(proxy)}", "{\(proxy), webpush: {\(webpush)}}"] {
            #expect(throws: SettingsError.self) { try PushSettings(yaml: Array(yaml.utf8), file: "f") }
        }
        let direct = "{\(proxy), webpush: {\(webpush), proxy: none}}"
        #expect(throws: Never.self) { try PushSettings(yaml: Array(direct.utf8), file: "f") }
    }
}

@Suite("Pushes to hosts that phones choose (T46)")
struct UnifiedPushDispatchTests {
    private let ntfy = endpoint("https://ntfy.sh/up1")
    private let other = endpoint("https://ntfy.sh/up2")

    /// Asks for a push, and makes the credential that it needs.
    private func ask(
        _ number: UInt64, of desk: Desk, to token: PushToken, _ message: PushMessage = incomingCall(),
        life: Duration = .seconds(30)
    ) -> [PushDispatcher.Transmission] {
        desk.ask(number, to: token, message, life: life)
        for order in desk.takeWanted() { desk.make(order, "vapid") }
        return desk.takeSent()
    }

    private func desk(_ more: String = "any-host: true") throws -> Desk { Desk(try settings(more)) }

    @Test func `the payload has the Call-ID and the time, and the request has TTL and urgency`() throws {
        let desk = try desk()
        let request = try #require(ask(1, of: desk, to: ntfy).first).request
        #expect(request.url == "https://ntfy.sh/up1")
        #expect(request.header("ttl") == "28" && request.header("urgency") == "high")
        let body = try JSONValue(request.body)
        #expect(body["call_id"]?.string == "a84b4c76e66710@pc33.example.net")
        #expect(body["sent"]?.integer == sampleDate.seconds)
        #expect(request.protection != .none)
    }

    @Test func `429 delays the endpoint alone (T46.6)`() throws {
        let desk = try desk()
        desk.answer(try #require(ask(1, of: desk, to: ntfy).first), 429, retryAfter: "12")
        // A further push to the endpoint waits as long, and a push to another endpoint of the host does not wait.
        #expect(ask(2, of: desk, to: ntfy).isEmpty)
        let accepted = try #require(ask(3, of: desk, to: other).first)
        desk.answer(accepted, 201)
        #expect(desk.outcomes() == [3: .accepted(nil)])
        desk.wait(.seconds(11))
        #expect(desk.takeSent().isEmpty)
        desk.wait(.seconds(3))
        #expect(Set(numbers(desk.takeSent())) == [1, 2])
        let report = desk.report("webpush/unifiedpush")
        #expect(report.limited == 1 && report.hosts.first?.limited == 1 && report.hosts.first?.host == "ntfy.sh")
    }

    @Test func `a push that cannot wait for the end of a 429 ends`() throws {
        let desk = try desk()
        desk.answer(try #require(ask(1, of: desk, to: ntfy).first), 429, retryAfter: "3600")
        #expect(desk.outcomes() == [1: .retry(after: .seconds(3600))])
        #expect(ask(2, of: desk, to: ntfy).isEmpty)
        #expect(desk.outcomes() == [2: .retry(after: nil)])
    }

    @Test func `413 makes the payload small, once`() throws {
        let desk = try desk()
        let long = incomingCall(from: "sip:" + String(repeating: "a", count: 200) + "@example.net", name: "Anna")
        let first = try #require(ask(1, of: desk, to: ntfy, long).first)
        desk.answer(first, 413)
        let second = try #require(desk.takeSent().first)
        #expect(second.request.body.count < first.request.body.count)
        #expect(try JSONValue(second.request.body)["type"]?.string == "invite")
        #expect(try JSONValue(second.request.body)["call_id"] != nil)
        desk.answer(second, 413)
        #expect(desk.takeSent().isEmpty)
        #expect(desk.outcomes() == [1: .payloadRefused("status 413")])
    }

    @Test func `a listed host keeps its answers 413 and 429`() throws {
        let desk = try desk()
        let mozilla = endpoint("https://updates.push.services.mozilla.com/wpush/v2/x")
        desk.answer(try #require(ask(1, of: desk, to: mozilla).first), 413)
        #expect(desk.outcomes() == [1: .payloadRefused("status 413")])
        desk.answer(try #require(ask(2, of: desk, to: mozilla).first), 429, retryAfter: "12")
        #expect(numbers(ask(3, of: desk, to: mozilla)) == [3])
    }

    @Test(arguments: [
        (404, PushOutcome.tokenDead(since: nil)), (410, .tokenDead(since: nil)),
        (401, .credentialsRefused("status 401")), (403, .credentialsRefused("status 403")),
        (400, .payloadRefused("status 400")), (302, .payloadRefused("status 302: the daemon follows no redirect")),
        (200, .accepted(nil)), (201, .accepted(nil)), (202, .accepted(nil)),
    ])
    func `each answer has its outcome, and no word of the server counts`(status: Int, expected: PushOutcome) throws {
        let desk = try desk()
        let sent = try #require(ask(1, of: desk, to: ntfy).first)
        desk.answer(
            sent, status, body: #"{"reason":"VapidPkHashMismatch","message":"<script>"}"#,
            date: "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(desk.outcomes() == [1: expected])
    }

    @Test func `one host's 403 marks neither the app nor other hosts (T46.8)`() throws {
        let desk = try desk()
        desk.answer(try #require(ask(1, of: desk, to: endpoint("https://hostile.example/x")).first), 403)
        desk.answer(try #require(ask(2, of: desk, to: ntfy).first), 201)
        let report = desk.report("webpush/unifiedpush")
        #expect(report.refusal == nil && report.accepted == 1 && report.credentialsRefused == 1)
        #expect(desk.report("webpush").refusal == nil)
        #expect(report.hosts.map(\.host) == ["ntfy.sh", "hostile.example"])
        #expect(report.hosts.last?.refusal == "status 403")
    }

    @Test func `a slow host fills only its own queue (T46.5)`() throws {
        let desk = try desk("any-host: true, host-queue: 3, host-rate: 1000")
        let slow = endpoint("https://slow.example/x")
        for number in 1...25 { _ = ask(UInt64(number), of: desk, to: slow) }
        // Sixteen requests are in flight, three pushes wait, and six are refused.
        #expect(desk.outcomes().count == 6)
        #expect(numbers(ask(100, of: desk, to: ntfy)) == [100])
        let mozilla = endpoint("https://updates.push.services.mozilla.com/wpush/v2/x")
        #expect(numbers(ask(101, of: desk, to: mozilla)) == [101])
    }

    @Test func `pushes that pause between tries count, so a failing host cannot fill the memory (T46.5)`() throws {
        let desk = try desk("any-host: true, host-queue: 1, host-rate: 10000")
        var refused = 0
        for number in 1...60 {
            for sent in ask(UInt64(number), of: desk, to: endpoint("https://failing.example/\(number)")) {
                desk.answer(sent, 503)
            }
            refused += desk.outcomes().count
        }
        // Two times sixteen requests and one waiting push may be active.
        #expect(refused == 60 - 34)
    }

    @Test func `a storm to one host is spread over time`() throws {
        let desk = try desk("any-host: true, host-rate: 10")
        var sent: [PushDispatcher.Transmission] = []
        for number in 1...15 { sent += ask(UInt64(number), of: desk, to: endpoint("https://ntfy.sh/\(number)")) }
        #expect(sent.count == 10)
        for one in sent { desk.answer(one, 201) }
        #expect(desk.takeSent().isEmpty)
        var times: [Duration] = []
        while let pause = desk.waitForDeadline() {
            for one in desk.takeSent() {
                desk.answer(one, 201)
                times.append(pause)
            }
        }
        #expect(times == Array(repeating: .milliseconds(100), count: 5))
        #expect(desk.outcomes().count == 15)
    }

    @Test func `the breaker of one host stops that host alone`() throws {
        let desk = try desk()
        let dead = endpoint("https://dead.example/x")
        for number in 1...5 {
            if let sent = ask(UInt64(number), of: desk, to: dead).first { desk.failToReach(sent) }
            desk.wait(.milliseconds(150))
            for sent in desk.takeSent() { desk.failToReach(sent) }
        }
        let hosts = desk.report("webpush/unifiedpush").hosts
        #expect(hosts.first?.isReachable == false)
        #expect(numbers(ask(9, of: desk, to: ntfy)) == [9])
    }
}

@Suite("Endpoints with a pause")
struct LimitedEndpointsTests {
    @Test func `a flood of answers 429 is bounded, and the longest pauses stay`() {
        var limited = LimitedEndpoints()
        let now = Instant(nanoseconds: 0)
        let longest = ByteString("https://ntfy.sh/longest")
        limited.limit(longest, until: now + .seconds(3600), now: now)
        for number in 0..<10_000 {
            limited.limit(ByteString("https://ntfy.sh/\(number)"), until: now + .seconds(1 + number % 100), now: now)
            #expect(limited.count <= LimitedEndpoints.capacity)
        }
        #expect(limited.end(of: longest, now: now) == now + .seconds(3600))
        #expect(limited.end(of: longest, now: now + .seconds(3601)) == nil)
    }
}
