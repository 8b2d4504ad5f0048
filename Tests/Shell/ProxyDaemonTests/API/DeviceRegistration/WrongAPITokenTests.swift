import ProxyPolicy
import Addressing
import Foundation
import Glibc
import JSON
import LoopTesting
import ProxyCore
import ProxyDaemon
import StoreTesting
import Telemetry
import TestSupport
import Testing

@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests that a wrong ApiToken in a body gets the same answer as a right ApiToken, but counts as a wrong login
    /// (threat T8).
    @Suite("Wrong API tokens", .timeLimit(.minutes(10)))
    struct WrongAPITokenTests {
        private static let paths = ["", "/batch", "/status", "/status/", "/cleanup", "/cleanup/batch"]

        private static func item(
            _ apiToken: String = RunningDaemon.apiToken, app: String = RunningDaemon.app, token: String = "t"
        ) -> String {
            #"{"MobileAppId":"\#(app)","UserId":"100","ApiToken":"\#(apiToken)","FcmDeviceToken":"\#(token)","#
                + #""RegistrationRequestIds":[]}"#
        }

        private static func request(_ path: String, _ body: String, org: String = "org-1") -> [UInt8] {
            RunningDaemon.post(
                RunningDaemon.registration.replacing("org-1", with: org) + path, Array(body.utf8),
                ["x-ms-track-registration: true"])
        }

        /// Makes a valid body for a request to `path`.
        private static func body(_ path: String, _ item: String) -> String {
            path.hasSuffix("/batch") ? "[\(item)]" : item
        }

        private func statuses(_ daemon: RunningDaemon, _ request: [UInt8]) async throws -> [Int] {
            RunningDaemon.statuses(try await daemon.answer(request))
        }

        @Test func `after ten of them a source has to wait, on every path and with any token`() async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder, RunningDaemon.forHostileInput)
            for number in 0..<9 {
                let path = Self.paths[number % Self.paths.count]
                let answer = try await daemon.answer(Self.request(path, Self.body(path, Self.item("guess \(number)"))))
                #expect(RunningDaemon.statuses(answer) == [path.hasPrefix("/status") ? 200 : 202], "\(path)")
            }
            // The source has one attempt left, and a request with a right token does not use up the attempt.
            #expect(try await statuses(daemon, Self.request("/status", Self.item())) == [200])
            // The daemon answers the last allowed attempt like all earlier attempts.
            #expect(try await statuses(daemon, Self.request("", Self.item("guess 10"))) == [202])
            let before = try await daemon.content(folder)
            let requests = Self.paths.flatMap { path in
                [Self.body(path, Self.item()), Self.body(path, Self.item("guess")), "{", ""].map {
                    Self.request(path, $0)
                }
            }
            for answer in try await daemon.answers(requests) {
                #expect(RunningDaemon.statuses(answer) == [429])
                let field = answer.split(separator: "\r\n").first { $0.hasPrefix("Retry-After: ") }
                let seconds = field.flatMap { Int($0.dropFirst("Retry-After: ".count)) } ?? 0
                #expect((1...7).contains(seconds))
                #expect(answer.contains("application/problem+json"))
            }
            #expect(try await daemon.content(folder) == before)
            let other = try await RunningDaemon.answer(
                Self.request("", Self.item()), of: IPAddress(v4: 0x7f00_0002), from: daemon.api)
            #expect(RunningDaemon.statuses(other) == [202])
            // The API still accepts API keys from the client's address, because nobody can guess keys.
            try await daemon.expectAlive()
            try await daemon.expect(200, get: "/v1/dead-tokens", key: RunningDaemon.readerKey)
            #expect(!daemon.log.lines.contains { $0.contains("guess") || $0.contains(RunningDaemon.apiToken) })
            #expect(
                daemon.log.lines.contains { $0.contains("an API request was refused") && $0.contains("status=429") })
            try await daemon.stop()
        }

        @Test func `the same one many times in a batch is one guess`() async throws {
            try await RunningDaemon.with(RunningDaemon.forHostileInput) { daemon async throws in
                let batch = Array(repeating: Self.item("old"), count: 100).joined(separator: ",")
                for _ in 0..<10 { #expect(try await statuses(daemon, Self.request("/batch", "[\(batch)]")) == [202]) }
                #expect(try await statuses(daemon, Self.request("/batch", "[\(batch)]")) == [429])
            }
        }

        @Test(arguments: [(9, [202, 202, 429]), (10, [202, 429]), (11, [429]), (99, [429])])
        func `different ones in a batch are as many guesses, and beyond the limit the batch is refused`(
            count: Int, expected: [Int]
        ) async throws {
            let folder = try StoreFolder()
            let daemon = try await RunningDaemon.start(folder, RunningDaemon.forHostileInput)
            let before = try await daemon.content(folder)
            for path in ["/batch", "/cleanup/batch"] where expected.first == 429 || path == "/batch" {
                let guesses = (0..<count).map { Self.item("guess \($0)") }
                let items = (expected.first == 429 ? [Self.item()] : []) + guesses
                #expect(
                    try await statuses(daemon, Self.request(path, "[\(items.joined(separator: ","))]")) == [expected[0]]
                )
            }
            if expected.first == 429 { #expect(try await daemon.content(folder) == before) }
            for status in expected.dropFirst() {
                #expect(try await statuses(daemon, Self.request("", Self.item("another"))) == [status])
            }
            try await daemon.stop()
        }

        @Test func `unknown apps and other organisations are guesses, too`() async throws {
            try await RunningDaemon.with(RunningDaemon.forHostileInput) { daemon async throws in
                for number in 0..<5 {
                    let app = "99999999-2222-3333-4444-55555555555\(number)"
                    #expect(try await statuses(daemon, Self.request("", Self.item(app: app))) == [202])
                    #expect(
                        try await statuses(daemon, Self.request("", Self.item(), org: "org-\(number + 2)")) == [202])
                }
                #expect(try await statuses(daemon, Self.request("", Self.item())) == [429])
            }
        }

        @Test func `they are counted together with passwords and keys`() async throws {
            try await RunningDaemon.with(RunningDaemon.forHostileInput) { daemon async throws in
                let report = "/v1/push-tokens?username=100&selector=S:1&token_msgs=T2sx&appid_msgs=a&password="
                for _ in 0..<3 {
                    try await daemon.expect(401, get: report + "wrong")
                    try await daemon.expect(401, get: "/v1/dead-tokens", key: try APIKeySecret.make().text)
                    #expect(try await statuses(daemon, Self.request("/cleanup", Self.item("wrong"))) == [202])
                }
                #expect(try await statuses(daemon, Self.request("/cleanup", Self.item("wrong"))) == [202])
                try await daemon.expect(429, get: report + "se%20cret%2B1")
                #expect(try await statuses(daemon, Self.request("/cleanup", Self.item())) == [429])
            }
        }

        @Test func `the limit can be switched off`() async throws {
            try await RunningDaemon.with({
                RunningDaemon.forHostileInput(&$0)
                $0.limits.wrongLoginsPerSource = 0
            }) { daemon async throws in
                for number in 0..<50 {
                    #expect(try await statuses(daemon, Self.request("", Self.item("guess \(number)"))) == [202])
                }
            }
        }
    }
}

extension RunningDaemon {
    /// Sends a request from the given IPv4 address of the machine, and returns the server's whole answer.
    fileprivate static func answer(
        _ request: [UInt8], of client: IPAddress, from endpoint: Endpoint
    ) async throws -> String {
        let received = Mailbox<String>()
        // The request has a thread of its own, because the call blocks.
        Thread.detachNewThread { received.put(blockingAnswer(request, of: client, from: endpoint)) }
        return try await received.next()
    }

    private static func blockingAnswer(_ request: [UInt8], of client: IPAddress, from endpoint: Endpoint) -> String {
        let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(number) }
        guard unsafe call(bind, number, Endpoint(client, 0)) == 0, unsafe call(connect, number, endpoint) == 0,
            unsafe send(number, request, request.count, 0) == request.count
        else { return "" }
        var all: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe recv(number, &buffer, buffer.count, 0)
            guard count > 0 else { return String(decoding: all, as: UTF8.self) }
            all += buffer[..<count]
        }
    }

    private static func call(
        _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ number: Int32, _ endpoint: Endpoint
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = endpoint.port.bigEndian
        address.sin_addr.s_addr = endpoint.address.v4Bits.bigEndian
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe function(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
