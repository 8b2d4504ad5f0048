import Addressing
import Foundation
import HTTPClient
import HTTPSemantics
import JSON
import LoopTesting
import ProviderTesting
import Reactor
import StoreTesting
import Telemetry
import Testing
import TestSupport

@testable import HTTPServices
@testable import ProxyRuntime

@Suite("Webhooks of device registration", .timeLimit(.minutes(10)))
struct DeviceWebhookTests {
    private func withReceiver(
        _ reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply = { _, _ in .answer(202) },
        _ change: @Sendable (inout APISettings) -> Void = { _ in },
        _ body: (DeviceAPI, FakeProvider, String) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let receiver = FakeProvider(loop, reply: reply)
            let url = try await receiver.listen()
            let folder = try StoreFolder()
            defer { folder.remove() }
            let api = DeviceAPI(loop, folder: folder, change)
            try await api.start()
            try await body(api, receiver, url)
            await api.stop()
            await receiver.close()
        }
    }

    @Test func `the signature is that of the documented example`() throws {
        let url = "https://hooks.example.net/push/cb?x=1"
        #expect(
            try SignatureEncoding.hex.signature(of: url, key: "api-token-1")
                == "770e490aefce18fdf7004186e0a45dea02812c7ee42f21000904ce82e46d18a7")
        #expect(
            try SignatureEncoding.base64.signature(of: url, key: "api-token-1")
                == "dw5JCu/OGP33AEGG4KRd6gKBLH7kLyEACQTOguRtGKc=")
        #expect(
            try SignatureEncoding.hex.signature(of: url, key: "api-token-2")
                != "770e490aefce18fdf7004186e0a45dea02812c7ee42f21000904ce82e46d18a7")
    }

    @Test(arguments: ["x-ms-callback-url", "X-MS-Status-Callback-URL"])
    func `an outcome is posted to the callback URL, signed`(name: String) async throws {
        try await withReceiver { api, receiver, url in
            let callback = "\(url)/cb?x=1"
            for (token, outcome) in [("f1", "Success"), ("dead", "Failed")] {
                _ = try await api.post("/devices", DeviceAPI.body(fcm: token), headers: [HTTPField(name, callback)])
                let request = try await receiver.requests.next()
                #expect(request.path == "/cb?x=1")
                #expect(request.headers["content-type"] == "application/json")
                let body = try JSONValue(Array(request.body.utf8))
                #expect(body["Status"]?.string == outcome)
                #expect(body["FailureReason"]?.string == (outcome == "Failed" ? "DryRunSendingFailed" : nil))
                let signature = try SignatureEncoding.base64.signature(of: callback, key: "api-token-1")
                #expect(body["Signature"]?.string == signature)
            }
        }
    }

    @Test func `of two callback URLs the first spelling counts, and hexadecimal is an option`() async throws {
        try await withReceiver({ _, _ in .answer(202) }) {
            $0.deviceRegistration.signature = .hex
        } _: { api, receiver, url in
            _ = try await api.post(
                "/devices", DeviceAPI.body(fcm: "f"),
                headers: [
                    HTTPField("x-ms-status-callback-url", "\(url)/second"),
                    HTTPField("x-ms-callback-url", "\(url)/first"),
                ])
            let request = try await receiver.requests.next()
            #expect(request.path == "/first")
            let signature = try SignatureEncoding.hex.signature(of: "\(url)/first", key: "api-token-1")
            #expect(request.body.contains(signature))
        }
    }

    @Test func `header fields are added, except for the framing ones`() async throws {
        try await withReceiver { api, receiver, url in
            let fields =
                #"{"X-One":"1","authorization":"Bearer a","HOST":"evil","Content-Length":"3","#
                + #""Transfer-Encoding":"chunked","Connection":"upgrade","keep-alive":"1","Proxy-Connection":"a","#
                + #""Proxy-Authorization":"Basic YQ==","TE":"trailers","Trailer":"X","Upgrade":"h2c","#
                + #""HTTP2-Settings":"AAAA","Expect":"100-continue","X-Empty":"","X-Two":"ä\"b"}"#
            _ = try await api.post(
                "/devices", DeviceAPI.body(fcm: "f"),
                headers: [
                    HTTPField("x-ms-callback-url", url), HTTPField("x-ms-callback-url-headers", fields),
                ])
            let request = try await receiver.requests.next()
            #expect(request.headers["x-one"] == "1")
            #expect(request.headers["authorization"] == "Bearer a")
            #expect(request.headers["host"].map { "http://\($0)" } == url)
            #expect(request.headers["content-length"] == "\(request.body.utf8.count)")
            #expect(request.headers["transfer-encoding"] == nil)
            for name in [
                "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer", "upgrade",
                "http2-settings", "expect",
            ] { #expect(request.headers[name] == nil, "\(name)") }
            #expect(request.headers["x-empty"] == "")
            #expect(request.headers["x-two"] == "ä\"b")
        }
    }

    @Test(arguments: [
        "x", "{", "[]", "7", "\"a\"", "{\"a\":1}", "{\"a\":null}", "{\"a\":{}}", "{\"a b\":\"c\"}", "{\"\":\"c\"}",
        "{\"a:\":\"c\"}", "{\"a\":\"b\\r\\nc: d\"}", "{\"a\":\"b\\u0000\"}", "{\"a\\n\":\"b\"}",
    ])
    func `invalid header fields make the request fail`(fields: String) async throws {
        try await withDeviceAPI { api in
            let response = try await api.post(
                "/devices", DeviceAPI.body(fcm: "f"),
                headers: [
                    HTTPField("x-ms-callback-url", "https://hooks.example.net/"),
                    HTTPField("x-ms-callback-url-headers", fields),
                ])
            #expect(response.status == 400)
        }
    }

    @Test func `a batch posts once for each item`() async throws {
        try await withReceiver { api, receiver, url in
            let items = (0..<40).map { DeviceAPI.body(user: "u\($0)", fcm: $0 == 0 ? "dead" : "t") }
            _ = try await api.post(
                "/devices/batch", "[\(items.joined(separator: ","))]", headers: [HTTPField("x-ms-callback-url", url)])
            var failures = 0
            for _ in items where try await receiver.requests.next().body.contains("Failed") { failures += 1 }
            #expect(failures == 1)
        }
    }

    @Test(arguments: [
        FakeProvider.Reply.answer(500), .answer(302, headers: "location: /elsewhere\r\n"), .answer(400), .close,
        .answer(200, String(repeating: "x", count: 100_000)),
    ])
    func `the receiver gets each webhook once, after any answer`(reply: FakeProvider.Reply) async throws {
        try await withReceiver({ request, _ in request.path == "/last" ? .answer(202) : reply }) { api, receiver, url in
            try await api.register(fcm: "f", callback: "\(url)/once")
            try await receiver.expect("/once")
            try await api.register(fcm: "f2", callback: "\(url)/last")
            try await receiver.expect("/last")
            let count = await receiver.requestCount()
            #expect(count == 2)
        }
    }

    @Test func `a wrong API token triggers no webhook`() async throws {
        try await withReceiver({ _, _ in .answer(202) }) { api, receiver, url in
            for _ in 0..<5 {
                try await api.register(fcm: "f", apiToken: "wrong", callback: url)
            }
            try await api.register(fcm: "f", callback: "\(url)/last")
            try await receiver.expect("/last")
            let count = await receiver.requestCount()
            #expect(count == 1)
        }
    }

    /// Each webhook is sent at most once, because the store does not record whether the receiver has got it.
    @Test func `a webhook comes after a restart when its request was still open, and never a second time`() async throws
    {
        try await withLoop { loop in
            let receiver = FakeProvider(loop) { _, _ in .answer(202) }
            let port = try await receiver.listen().split(separator: ":").last ?? ""
            let folder = try StoreFolder()
            defer { folder.remove() }
            let first = DeviceAPI(loop, folder: folder)
            let asked = Mailbox<String>()
            // The look-up of the receiver's name never ends, so that the webhook stays unsent.
            await first.resolving { host, _ in asked.put(host) }
            try await first.start()
            func register(_ user: String, at api: DeviceAPI) async throws {
                let callback = HTTPField("x-ms-callback-url", "http://hooks.example.com:\(port)/\(user)")
                _ = try await api.post("/devices", DeviceAPI.body(user: user, fcm: "f"), headers: [callback])
            }
            try await register("told", at: first)
            _ = try await first.pushes.next()
            // When the daemon looks up the webhook's receiver, it has already written the outcome to the disk.
            _ = try await asked.next()
            await first.hold()
            try await register("open", at: first)
            _ = try await first.pushes.next()
            await first.stop()

            let second = DeviceAPI(loop, folder: folder)
            await second.resolving { _, done in done([.loopbackV4]) }
            try await second.start()
            try await second.idle()
            try await register("new", at: second)
            var paths: Set<String> = []
            for _ in 0..<2 { paths.insert(try await receiver.requests.next().path) }
            #expect(paths == ["/open", "/new"])
            #expect(await receiver.requestCount() == 2)
            #expect(await second.devices(of: "open").count == 1)
            await second.stop()
            await receiver.close()
        }
    }

    // MARK: Allowed addresses

    @Test func `the address that was checked is the one that is asked, and the name is looked up once`() async throws {
        try await withLoop { loop in
            let receiver = FakeProvider(loop) { _, _ in .answer(202) }
            let port = try await receiver.listen().split(separator: ":").last ?? ""
            let folder = try StoreFolder()
            defer { folder.remove() }
            let api = DeviceAPI(loop, folder: folder)
            let asked = Mailbox<String>()
            // A second look-up of the receiver's host name would find an internal address.
            let count = Locked(0)
            await api.resolving { host, done in
                asked.put(host)
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                done([number == 1 ? IPAddress(v4: 0x7f00_0001) : IPAddress(v4: 0xa9fe_a9fe)])
            }
            try await api.start()
            try await api.register(fcm: "f", callback: "http://Rebind.example.com:\(port)/a")
            let request = try await receiver.requests.next()
            #expect(request.headers["host"] == "rebind.example.com:\(port)")
            try await asked.expect("rebind.example.com")
            #expect(count.withLock { $0 } == 1)
            // The daemon refuses the webhook, because the receiver's host name now has the internal address.
            try await api.register(fcm: "f2", callback: "http://rebind.example.com:\(port)/b")
            try await asked.expect("rebind.example.com")
            try await api.register(fcm: "f3", callback: "http://127.0.0.1:\(port)/c")
            try await receiver.expect("/c")
            let requests = await receiver.requestCount()
            #expect(requests == 2)
            await api.stop()
            await receiver.close()
        }
    }

    @Test func `our own listeners are refused, even where the address is allowed`() async throws {
        try await withReceiver { api, receiver, url in
            let own = await api.endpoint
            try await api.register(fcm: "f", callback: "http://\(own)/healthz")
            try await api.register(fcm: "f2", callback: url)
            _ = try await receiver.requests.next()
            #expect(api.logSink.lines.contains { $0.contains("the callback's address is not allowed") })
        }
    }
}

@Suite("Callback URLs")
struct CallbackURLTests {
    private static let inside = [
        "https://127.0.0.1/", "https://127.1/", "https://127.0.1/", "https://2130706433/", "https://0x7f000001/",
        "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://017700000001/", "https://127.0.0.1./",
        "https://127.0.0.01/",
        "https://0/", "https://0.0.0.0/", "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/",
        "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data", "https://100.64.0.1/",
        "https://198.18.0.1/",
        "https://224.0.0.1/", "https://255.255.255.255/", "https://[::1]/", "https://[::]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/", "https://[::127.0.0.1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
        "https://[fc00::1]/", "https://[fd12:3456::1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/",
        "https://[2001:0:7f00:1::]/", "https://[2001:db8::1]/", "https://[ff02::1]/", "https://user@127.0.0.1/",
        "https://example.com@127.0.0.1/", "https://127.0.0.1:443@example.com/", "https://u:p@example.com/",
        "HTTPS://127.0.0.1/", "https://LOCALHOST./", "https://example.com./", "http:127.0.0.1", "https:///127.0.0.1/",
        "https:\\\\127.0.0.1\\", "https://example.com\\@127.0.0.1/", "file:///etc/passwd", "gopher://example.com/",
        "ftp://example.com/", "dict://127.0.0.1:11211/", "javascript:alert(1)", "https://example.com/\r\nX: y",
        "https://example.com/ x", "https://exa\tmple.com/", "https://ex%61mple.com/", "https://①②⑦.0.0.1/",
        "https://127。0。0。1/", "https://example.com:0/", "https://example.com:65536/", "https://example.com:/",
        "https://example.com:+443/", "https://example.com:4 3/", "https://[::1/", "https://::1/", "https://",
        "https://:443/", "", "x",
        "//example.com/", "https://a..b/", "https://example.0x7f/", "https://[1.2.3.4]/",
    ]

    @Test(arguments: inside)
    func `nothing leads inside`(text: String) {
        let rules = CallbackGuard(allowsPlain: false, allowed: [])
        guard let url = CallbackURL(text) else { return }
        // The host of the URL must be an address, because the test looks up no names.
        guard let address = IPAddress(url.host) else {
            Issue.record("\(text) is looked up as \(url.host)")
            return
        }
        #expect(rules.address(among: [address], port: url.port, own: []) == nil)
    }

    @Test func `there are enough of them`() { #expect(Self.inside.count >= 30) }

    @Test(arguments: [
        ("https://hooks.example.net/push/cb?x=1", "https://hooks.example.net/push/cb?x=1", "hooks.example.net", 443),
        ("HTTPS://Hooks.Example.NET", "https://hooks.example.net/", "hooks.example.net", 443),
        ("https://a.example:8443?x#frag", "https://a.example:8443/?x", "a.example", 8443),
        ("http://a.example/#@127.0.0.1", "http://a.example/", "a.example", 80),
        ("https://[2A00:1450::1]:8443/a", "https://[2a00:1450::1]:8443/a", "2a00:1450::1", 8443),
        ("https://8.8.8.8/", "https://8.8.8.8/", "8.8.8.8", 443),
        ("https://a.example/?u=http://127.0.0.1/", "https://a.example/?u=http://127.0.0.1/", "a.example", 443),
    ])
    func `valid URLs are used unchanged`(text: String, sent: String, host: String, port: UInt16) throws {
        let url = try #require(CallbackURL(text))
        #expect(url.text == sent)
        #expect(url.host == host)
        #expect(url.port == port)
    }

    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }

    @Test func `one inside address spoils a name, and the operator may allow some`() throws {
        let (outside, inside) = (try address("8.8.8.8"), try address("10.1.2.3"))
        let strict = CallbackGuard(allowsPlain: false, allowed: [])
        #expect(strict.address(among: [outside], port: 443, own: []) == outside)
        #expect(strict.address(among: [outside, inside], port: 443, own: []) == nil)
        #expect(strict.address(among: [], port: 443, own: []) == nil)
        let wide = CallbackGuard(allowsPlain: false, allowed: [AddressBlock("10.1.2.0/24")].compactMap(\.self))
        #expect(wide.address(among: [inside], port: 443, own: []) == inside)
        #expect(wide.address(among: [try address("10.1.3.3")], port: 443, own: []) == nil)
    }

    @Test func `a listener on all addresses is refused on every address`() throws {
        let rules = CallbackGuard(allowsPlain: true, allowed: [AddressBlock("127.0.0.0/8")].compactMap(\.self))
        let own = [Endpoint(.anyV4, 8088)]
        #expect(rules.address(among: [.loopbackV4], port: 8088, own: own) == nil)
        #expect(rules.address(among: [try address("127.0.0.2")], port: 8088, own: own) == nil)
        #expect(rules.address(among: [.loopbackV4], port: 8089, own: own) == .loopbackV4)
        let primary = HostAddress.primary(isV4: true)
        let block = AddressBlock(primary.description)
        let machine = CallbackGuard(allowsPlain: true, allowed: [block].compactMap(\.self))
        #expect(machine.address(among: [primary], port: 8088, own: own) == nil)
        #expect(machine.address(among: [primary], port: 80, own: own) == primary)
    }
}

extension FakeProvider {
    /// Expects that the next request has the path `path`.
    fileprivate nonisolated func expect(_ path: String, at place: SourceLocation = #_sourceLocation) async throws {
        let asked = try await requests.next().path
        #expect(asked == path, sourceLocation: place)
    }
}
