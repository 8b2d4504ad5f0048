import Crypto
import Foundation
import HTTPServer
import StoreTesting
import Testing

@testable import HTTPServices
@testable import ProxyDaemon

/// The data of a daemon, to compare them before and after requests that must change nothing.
struct DaemonContent: Equatable {
    let bindings: Int
    /// The number of rows in each table of the store.
    let rows: [String: Int64]
}

extension RunningDaemon {
    static let app = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    static let apiToken = "api-token-1"
    static let registration = "/api/v1.0/orgs/org-1/pushdeviceregistration/devices"

    /// Changes the settings for these tests: an app may register devices, and one source may open many connections.
    static func forHostileInput(_ settings: inout DaemonSettings) {
        var app = MobileAppSettings()
        app.id = Self.app
        app.organisation = "org-1"
        app.tokenHashes = [Self.hash(of: Self.apiToken)]
        app.googleParam = "my-project"
        settings.api.mobileApps["shop"] = app
        settings.api.http.connectionsPerSource = 1000
    }

    static func hash(of text: String) -> [UInt8] { HashAlgorithm.sha256.digest(of: Array(text.utf8)) }

    func content(_ folder: StoreFolder) async throws -> DaemonContent {
        // The table `meta` is left out, because the daemon's own notes do not come from requests.
        DaemonContent(bindings: await bindingCount(), rows: try folder.rowCounts().filter { $0.key != "meta" })
    }

    /// Finds the statuses of all responses on one connection. More than one status means that the server has read one
    /// request as two.
    static func statuses(_ answer: String) -> [Int] {
        answer.components(separatedBy: "HTTP/1.1 ").dropFirst().compactMap { Int($0.prefix(3)) }
    }

    /// Sends all requests at the same time, each on a connection of its own.
    ///
    /// - Returns: the answers, in the order of the requests.
    func answers(_ requests: [[UInt8]]) async throws -> [String] {
        try await withThrowingTaskGroup(of: (Int, String).self) { group in
            for (index, request) in requests.enumerated() {
                group.addTask { (index, try await answer(request)) }
            }
            var answers = Array(repeating: "", count: requests.count)
            for try await (index, answer) in group { answers[index] = answer }
            return answers
        }
    }

    /// Makes a POST request with a body.
    static func post(_ target: String, _ body: [UInt8], _ fields: [String] = []) -> [UInt8] {
        let head =
            (["POST \(target) HTTP/1.1", "Host: a", "Connection: close", "Content-Length: \(body.count)"] + fields)
            .joined(separator: "\r\n")
        return Array((head + "\r\n\r\n").utf8) + body
    }

    /// Whether the answer contains text that no answer may contain, because the text comes from a file or from the
    /// request.
    static func leaks(_ answer: String) -> Bool {
        ["root:", "/etc/", "/tmp/", "SQLite format", "PRIVATE KEY", "Fatal error", ".swift", "api-token-1"]
            .contains { answer.contains($0) }
    }

    /// Expects that the daemon runs and is ready.
    func expectAlive() async throws {
        for target in ["/healthz", "/readyz"] {
            let status = try await get(target)
            #expect(status == 200)
        }
    }
}
