import Addressing
import JSON
import Testing

@testable import HTTPServices
@testable import ProxyDaemon

/// The operators' web page, from its files to the live view.
@Suite("Web page", .timeLimit(.minutes(10)))
struct PageTests {
    private static let readKey = "spd_" + String(repeating: "R", count: 43)

    /// One browser with a session.
    private struct Browser {
        let daemon: RunningDaemon
        let admin: Endpoint
        var cookie = ""
        var token = ""

        func send(
            _ method: String, _ target: String, _ body: String = "", _ fields: [String] = [], host: String? = nil
        ) async throws -> (status: Int, head: String, body: String) {
            let lines =
                [
                    "\(method) \(target) HTTP/1.1", "Host: \(host ?? "\(admin)")", "Connection: close",
                    "Content-Length: \(body.utf8.count)",
                ] + (cookie.isEmpty ? [] : ["Cookie: \(cookie)"]) + fields
            let answer = try await daemon.answer(lines.joined(separator: "\r\n") + "\r\n\r\n" + body, from: admin)
            let end = try #require(answer.firstRange(of: "\r\n\r\n"))
            return (
                RunningDaemon.statuses(answer).first ?? 0, String(answer[..<end.lowerBound]),
                String(answer[end.upperBound...])
            )
        }

        mutating func logIn(_ key: String) async throws -> Int {
            let answer = try await send("POST", "/session", #"{"key":"\#(key)"}"#, ["Content-Type: application/json"])
            if answer.status == 200 {
                let line = try #require(answer.head.split(separator: "\r\n").first { $0.hasPrefix("Set-Cookie: ") })
                cookie = String(line.dropFirst("Set-Cookie: ".count).prefix { $0 != ";" })
                token = try JSONValue(Array(answer.body.utf8))["token"]?.string ?? ""
            }
            return answer.status
        }
    }

    private func with(_ body: (Browser) async throws -> Void) async throws {
        try await RunningDaemon.with({ $0.admin.listen = [Endpoint(.loopbackV4, 0)] }) { daemon async throws in
            let secret = try #require(APIKeySecret(Self.readKey))
            let hash = secret.hash.map { String(UInt16($0) + 256, radix: 16).dropFirst() }.joined()
            let key = #"{"name":"viewer","hash":"\#(hash)","scopes":"admin.read"}"#
            #expect(try await daemon.order("PUT", "/v1/apikeys", key).status == 200)
            try await body(Browser(daemon: daemon, admin: try #require(daemon.admin)))
        }
    }

    @Test(arguments: [
        "/", "/page.css", "/page.js", "/page-views.js", "/page-plots.js", "/chart.js", "/icon.svg",
    ])
    func `files come with a strict policy and a tag`(path: String) async throws {
        try await with { browser async throws in
            let answer = try await browser.send("GET", path)
            #expect(answer.status == 200 && !answer.body.isEmpty)
            for field in [
                "Content-Security-Policy: default-src 'none'; script-src 'self'; ", "frame-ancestors 'none'",
                "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY", "Referrer-Policy: no-referrer",
                "Cross-Origin-Opener-Policy: same-origin", "Cross-Origin-Resource-Policy: same-origin",
                "Cache-Control: no-cache",
            ] { #expect(answer.head.contains(field), "\(field)") }
            let tag = try #require(answer.head.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") }).dropFirst(6)
            #expect(try await browser.send("GET", path, "", ["If-None-Match: \(tag)"]).status == 304)
            #expect(try await browser.send("HEAD", path).body.isEmpty)
            #expect(try await browser.send("GET", path, host: "evil.example").status == 403)
            #expect(try await browser.daemon.get(path) == 404)
        }
    }

    @Test func `a session reads with admin.read, and changes with admin and the token`() async throws {
        try await with { browser async throws in
            var (viewer, boss) = (browser, browser)
            #expect(try await viewer.send("GET", "/session").status == 401)
            #expect(try await viewer.logIn("spd_" + String(repeating: "x", count: 43)) == 401)
            #expect(try await viewer.logIn(RunningDaemon.readerKey) == 403)
            #expect(try await viewer.logIn(Self.readKey) == 200)
            #expect(try await boss.logIn(RunningDaemon.adminKey) == 200)
            #expect(try await viewer.send("GET", "/session").body.contains(#""isReadOnly":true"#))
            #expect(try await boss.send("GET", "/session").body.contains(#""isReadOnly":false"#))
            #expect(try await viewer.send("GET", "/v1/users").status == 200)
            let user = #"{"name":"9@example.net","password":"p"}"#
            func put(_ browser: Browser, _ fields: String...) async throws -> Int {
                try await browser.send("PUT", "/v1/users", user, fields).status
            }
            #expect(try await put(viewer, "X-Session-Token: \(viewer.token)") == 403)
            #expect(try await put(boss) == 403)
            #expect(try await put(boss, "X-Session-Token: \(viewer.token)") == 403)
            #expect(try await put(boss, "X-Session-Token: \(boss.token)", "Origin: http://evil.example") == 403)
            #expect(try await put(boss, "X-Session-Token: \(boss.token)") == 200)
            #expect(try await boss.send("DELETE", "/session").status == 403)
            #expect(try await boss.send("DELETE", "/session", "", ["X-Session-Token: \(boss.token)"]).status == 204)
            #expect(try await boss.send("GET", "/v1/users").status == 401)
        }
    }

    @Test func `the live view ends with the key`() async throws {
        try await with { browser async throws in
            var viewer = browser
            #expect(try await viewer.logIn(Self.readKey) == 200)
            let watching = viewer
            async let stream = watching.send("GET", "/v1/live")
            // The stream has begun when the daemon has one viewer.
            while try await viewer.daemon.viewers == 0 { try Task.checkCancellation() }
            #expect(try await browser.daemon.order("DELETE", "/v1/apikeys/viewer").status == 200)
            let answer = try await stream
            #expect(answer.status == 200 && answer.head.contains("Content-Type: text/event-stream"))
            #expect(answer.body.contains("event: now\ndata: {\"time\":"))
            #expect(answer.body.contains("event: bye\ndata: {\"reason\":\"key removed\"}"))
            #expect(try await viewer.send("GET", "/v1/live").status == 401)
        }
    }
}
