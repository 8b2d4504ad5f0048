import HTTPSemantics
import HTTPServer
import LoopTesting
import Reactor
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import HTTPServices

@Suite("The gate for browsers", .timeLimit(.minutes(5)))
struct PageGateTests {
    private func withGate(tls: Bool = false, _ body: @Sendable @escaping (PageGate, MemoryLogSink) -> Void) async throws
    {
        try await withLoop { loop in
            await Bench(loop).run { bench in
                let sink = MemoryLogSink()
                let log = Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) }
                body(
                    PageGate(
                        names: ["Admin.Example.net"], usesTLS: tls, keys: APIKeyRing(), loop: bench.loop, log: log),
                    sink)
            }
        }
    }

    private static func request(_ host: String, _ fields: [(String, String)] = []) -> HTTPRequest {
        HTTPRequest(
            method: "GET", target: "/session",
            fields: [HTTPField("Host", host)] + fields.map { HTTPField($0.0, $0.1) })
    }

    @Test func `only addresses, localhost and names of the settings are hosts`() async throws {
        try await withGate { gate, sink in
            let allowed = [
                "127.0.0.1", "127.0.0.1:8089", "[::1]:8089", "192.0.2.7", "localhost", "LOCALHOST:1",
                "admin.example.net", "ADMIN.example.net:8089",
            ]
            for host in allowed { #expect(gate.refusalOfHost(Self.request(host)) == nil, "\(host)") }
            let refused = [
                "evil.example", "evil.example:8089", "admin.example.net.evil.example", "127.0.0.1.evil.example", "",
                "localhost.evil.example", "[::1]x", "[x]", "127.0.0.1:8089:1", "a b", "admin.example.net@evil", "a/b",
                "127.0.0.1:x",
            ]
            for host in refused { #expect(gate.refusalOfHost(Self.request(host)) != nil, "\(host)") }
            gate.namesChanged(["evil.example"])
            #expect(gate.refusalOfHost(Self.request("evil.example")) == nil)
            #expect(gate.refusalOfHost(Self.request("admin.example.net")) != nil)
            #expect(sink.lines.contains { $0.contains("add evil.example to admin.names") })
        }
    }

    @Test func `requests that other sites cause are refused`() async throws {
        try await withGate { gate, _ in
            func isAllowed(_ fields: (String, String)...) -> Bool {
                gate.refusal(of: Self.request("127.0.0.1:8089", fields)) == nil
            }
            #expect(isAllowed())
            #expect(isAllowed(("Origin", "http://127.0.0.1:8089"), ("Sec-Fetch-Site", "same-origin")))
            #expect(isAllowed(("Origin", "https://127.0.0.1:8089"), ("Sec-Fetch-Site", "none")))
            #expect(!isAllowed(("Origin", "http://127.0.0.1:8088")))
            #expect(!isAllowed(("Origin", "http://evil.example")))
            #expect(!isAllowed(("Origin", "null")))
            #expect(!isAllowed(("Origin", "http://127.0.0.1:8089"), ("Origin", "http://evil.example")))
            #expect(!isAllowed(("Sec-Fetch-Site", "cross-site")))
            #expect(!isAllowed(("Sec-Fetch-Site", "same-site")))
            #expect(!isAllowed(("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")))
        }
        try await withGate(tls: true) { gate, _ in
            let plain = Self.request("127.0.0.1", [("Origin", "http://127.0.0.1")])
            #expect(gate.refusal(of: plain) != nil)
        }
    }

    @Test func `a change needs the token of the session, once`() async throws {
        try await withGate { gate, _ in
            let (secret, other) = (String(repeating: "s", count: 43), String(repeating: "t", count: 43))
            func isAllowed(_ tokens: String...) -> Bool {
                let fields = tokens.map { ("X-Session-Token", $0) }
                return gate.refusalOfToken(Self.request("127.0.0.1", fields), secret) == nil
            }
            #expect(isAllowed(PageSessions.token(of: secret)))
            #expect(!isAllowed())
            #expect(!isAllowed(""))
            #expect(!isAllowed(PageSessions.token(of: other)))
            #expect(!isAllowed(PageSessions.token(of: secret), PageSessions.token(of: secret)))
        }
    }

    @Test func `the cookie is read only if there is exactly one`() async throws {
        let secret = String(repeating: "s", count: 43)
        try await withGate { gate, _ in
            func found(_ cookies: String...) -> String? {
                gate.secret(in: Self.request("127.0.0.1", cookies.map { ("Cookie", $0) }))
            }
            #expect(found("sippushd=\(secret)") == secret)
            #expect(found("a=b; sippushd=\(secret); c=d") == secret)
            #expect(found() == nil)
            #expect(found("sippushd=short") == nil)
            #expect(found("sippushd=\(secret); sippushd=\(secret)") == nil)
            #expect(found("sippushd=\(secret)", "sippushd=\(secret)") == nil)
            #expect(found("xsippushd=\(secret)") == nil)
            #expect(gate.cookie(secret).value == "sippushd=\(secret); HttpOnly; SameSite=Strict; Path=/; Max-Age=43200")
        }
        try await withGate(tls: true) { gate, _ in
            #expect(gate.secret(in: Self.request("127.0.0.1", [("Cookie", "sippushd=\(secret)")])) == nil)
            #expect(gate.secret(in: Self.request("127.0.0.1", [("Cookie", "__Host-sippushd=\(secret)")])) == secret)
            #expect(gate.cookie(secret).value.hasSuffix("; Secure"))
        }
    }
}
