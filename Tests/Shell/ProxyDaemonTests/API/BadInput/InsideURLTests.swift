import Addressing
import Foundation
import HTTPServices
import LoopTesting
import ProviderTesting
import ProxyDaemon
import Testing

extension RunningDaemonSuites {
    /// Tests that the daemon sends no webhook to callback URLs that lead to internal addresses where a server listens
    /// (threat T12).
    @Suite("Callback URLs that lead inside", .timeLimit(.minutes(10)))
    struct InsideURLTests {
        /// In the URLs, `{port}` means the port of a server on 127.0.0.1, and `{own}` the port of the API.
        private static let urls = [
            // Callback URLs with plain internal addresses, or with other notations of these addresses.
            "http://127.0.0.1:{port}/", "https://127.0.0.1:{port}/", "http://127.1:{port}/", "http://127.0.1:{port}/",
            "http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0x7f.0.0.1:{port}/",
            "http://0177.0.0.1:{port}/", "http://017700000001:{port}/", "http://127.0.0.1.:{port}/",
            "http://127.0.0.01:{port}/", "http://0:{port}/", "http://0.0.0.0:{port}/", "http://127.127.127.127:{port}/",
            // Callback URLs with IPv6 addresses that contain an IPv4 address.
            "http://[::1]:{port}/", "http://[::]:{port}/", "http://[::ffff:127.0.0.1]:{port}/",
            "http://[::ffff:7f00:1]:{port}/", "http://[::127.0.0.1]:{port}/", "http://[64:ff9b::7f00:1]:{port}/",
            "http://[2002:7f00:1::]:{port}/", "http://[0:0:0:0:0:ffff:7f00:0001]:{port}/",
            "http://[fe80::1%25lo]:{port}/",
            // Callback URLs with host names of this machine.
            "http://localhost:{port}/", "http://LOCALHOST:{port}/", "http://localhost.:{port}/",
            "http://ip6-localhost:{port}/",
            // Callback URLs that only appear to have an outside host.
            "http://example.com@127.0.0.1:{port}/", "http://u:p@127.0.0.1:{port}/",
            "http://127.0.0.1:{port}@example.com/", "http://example.com#@127.0.0.1:{port}/",
            "http://127.0.0.1:{port}\\@example.com/", "http:\\\\127.0.0.1:{port}\\", "http:/127.0.0.1:{port}/",
            "http:127.0.0.1:{port}", "//127.0.0.1:{port}/", "127.0.0.1:{port}",
            // Callback URLs with upper case, percent encoding or other scripts.
            "HTTP://127.0.0.1:{port}/", "http://%31%32%37.0.0.1:{port}/", "http://127%2e0%2e0%2e1:{port}/",
            "http://①②⑦.0.0.1:{port}/", "http://127。0。0。1:{port}/",
            // Callback URLs with other schemes than HTTP and HTTPS.
            "file:///etc/passwd", "FILE:///etc/passwd", "file://localhost/etc/passwd", "gopher://127.0.0.1:{port}/_GET",
            "ftp://127.0.0.1:{port}/", "dict://127.0.0.1:{port}/", "ldap://127.0.0.1:{port}/", "unix:///run/x.sock",
            "javascript:alert(1)", "data:text/plain,x",
            // Callback URLs with addresses of cloud services and of the daemon itself.
            "http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/latest/meta-data",
            "http://metadata.google.internal/", "http://127.0.0.1:{own}/v1/dead-tokens", "http://0.0.0.0:{own}/healthz",
            // Callback URLs with unusual or invalid ports, or a tab.
            "http://127.0.0.1:0{port}/", "http://127.0.0.1:+{port}/", "http://127.0.0.1:65536/", "http://:{port}/",
            "http://127.0.0.1:{port}/\u{9}x",
        ]

        /// URLs with bytes that no header field can contain. URLs for which the API refuses the whole request.
        private static let broken = [
            "http://a/\nX-Injected: y", "http://a/\rX-Injected: y", "http://a/\r", "http://a/\0",
        ]

        private static func registration(_ number: Int, _ url: String) -> [UInt8] {
            RunningDaemon.post(
                RunningDaemon.registration,
                Array(
                    """
                    {"MobileAppId":"\(RunningDaemon.app)","UserId":"u\(number)","ApiToken":"\(RunningDaemon.apiToken)",\
                    "FcmDeviceToken":"t"}
                    """.utf8), ["x-ms-callback-url: \(url)"])
        }

        @Test func `there are enough of them`() { #expect(Self.urls.count >= 30) }

        @Test func `internal servers get none of the webhooks`() async throws {
            try await withLoop { loop in
                let inside = FakeProvider(loop) { _, _ in .answer(202) }
                let port = try await inside.listen().split(separator: ":").last ?? ""
                // The daemon also sends a webhook to an allowed receiver, to prove that it sends webhooks at all.
                let allowed = FakeProvider(loop) { _, _ in .answer(202) }
                let good = try await allowed.listen(at: IPAddress(v4: 0x7f00_0002))
                try await RunningDaemon.with({ settings in
                    RunningDaemon.forHostileInput(&settings)
                    settings.api.deviceRegistration.allowsPlainWebhooks = true
                    settings.api.deviceRegistration.privateReceivers = [AddressBlock("127.0.0.2/32")].compactMap(\.self)
                }) { daemon in
                    let urls = Self.urls.map {
                        $0.replacing("{port}", with: port).replacing("{own}", with: "\(daemon.api.port)")
                    }
                    let answers = try await daemon.answers(
                        urls.enumerated().map { Self.registration($0.offset, $0.element) })
                    for (url, answer) in zip(urls, answers) {
                        #expect([[202], [400]].contains(RunningDaemon.statuses(answer)), "\(url): \(answer)")
                        #expect(!RunningDaemon.leaks(answer), "\(url)")
                    }
                    for answer in try await daemon.answers(Self.broken.map { Self.registration(0, $0) }) {
                        #expect(RunningDaemon.statuses(answer) == [400])
                    }
                    _ = try await daemon.answers([Self.registration(urls.count, "\(good)/hook")])
                    let request = try await allowed.requests.next()
                    #expect(request.path == "/hook")
                    try await daemon.expectAlive()
                    // The users have no devices, because each registration failed: all push providers are disabled.
                    let count = await daemon.bindingCount()
                    #expect(count == 0)
                }
                let counts = await (inside.connectionCount, allowed.connectionCount)
                #expect(counts == (0, 1))
                await inside.close()
                await allowed.close()
            }
        }
    }
}
