import ProxyPolicy
import Addressing
import Foundation
import HTTPClient
import HTTPSemantics
import JSON
import LoopTesting
import ProxyCore
import ProxyDaemon
import Testing

@testable import Control
@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests each HTTP route of the API and the admin API with keys of each scope.
    @Suite("Scopes", .timeLimit(.minutes(10)))
    struct ScopeTests {
        /// The scope that a key needs for the routes whose paths begin with `prefix`. If several prefixes match, the
        /// longest one decides. If the scope of a prefix is ``APIScope/admin``, a GET needs only
        /// ``APIScope/adminRead``.
        private static let scopes: [(prefix: String, scope: APIScope?)] = [
            ("/healthz", nil), ("/readyz", nil), ("/version", nil), ("/openapi.json", nil),
            ("/api/v1.0/orgs/", nil),
            ("/v1/dead-tokens", .tokensRead),
            ("/v1/push-tokens", .tokensReport), ("/v1/account-removals", .tokensReport), ("/token", .tokensReport),
            ("/pushToken", .tokensReport),
            ("/api/v1/notifications", .pushes), ("/pnm2", .pushes),
            ("/v1/pushes/", .lifecycle), ("/v1/push-statistics", .lifecycle), ("/api/v1/pushes", .lifecycle),
            ("/api/v1/pushes/all_read", .lifecycleReport), ("/api/v1/pushes/{push}/received", .lifecycleReport),
            ("/api/v1/pushes/{push}/follow", .lifecycleReport), ("/api/v1/pushes/{push}/read", .lifecycleReport),
            ("/api/v1/devices", .lifecycleReport),
            ("/metrics", .metrics),
            ("/v1/users", .admin), ("/v1/held", .admin), ("/v1/messages", .admin), ("/v1/providers", .admin),
            ("/v1/explain", .admin), ("/v1/apikeys", .admin), ("/v1/apps", .admin), ("/v1/feedback", .admin),
            ("/v1/drain", .admin), ("/v1/push-tests", .admin), ("/v1/upstream", .admin), ("/v1/plots", .admin),
            ("/provision/", nil), ("/v1/users/{user}/provisioning", .provisioning), ("/v1/provisioning", .provisioning),
            ("/v1/reports/wakes", .lifecycle), ("/v1/reports/pushes", .admin),
        ]

        private struct Operation {
            let method: String
            let path: String
            let scope: APIScope?
        }

        private func operations(_ daemon: RunningDaemon, _ endpoint: Endpoint) async throws -> [Operation] {
            let answer = try await daemon.answer(
                "GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", from: endpoint)
            let start = try #require(answer.firstRange(of: "\r\n\r\n")).upperBound
            guard case .object(let paths)? = try JSONValue(Array(answer[start...].utf8))["paths"] else { return [] }
            return paths.flatMap { path -> [Operation] in
                guard case .object(let operations) = path.value else { return [] }
                return operations.map { operation in
                    Operation(
                        method: operation.key.uppercased(), path: path.key,
                        scope: operation.value["x-scope"]?.string.flatMap { APIScope(rawValue: $0) })
                }
            }
        }

        private func secret(_ scope: APIScope) throws -> APIKeySecret {
            let number = APIScope.allCases.firstIndex(of: scope) ?? 0
            return try #require(APIKeySecret("spd_" + String(repeating: "s", count: 42) + "\(number)"))
        }

        @Test func `each route lets in the keys it names, and no others`() async throws {
            try await RunningDaemon.with({ settings in
                settings.admin.listen = [Endpoint(.loopbackV4, 0)]
                settings.api.notifications.enabled = true
                settings.limits.wrongLoginsPerSource = 0
            }) { daemon in
                for scope in APIScope.allCases {
                    let key = APIKeyRequest(name: scope.rawValue, secret: try secret(scope), scopes: [scope])
                    let body = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
                    #expect(try await daemon.order("PUT", "/v1/apikeys", body).status == 200)
                }
                let admin = try #require(daemon.admin)
                var count = 0
                for endpoint in [daemon.api, admin] {
                    for operation in try await operations(daemon, endpoint) {
                        count += 1
                        let entry = Self.scopes.filter { operation.path.hasPrefix($0.prefix) }
                            .max { $0.prefix.count < $1.prefix.count }
                        // On the admin API, operators read the figures with their keys.
                        let isFigure = endpoint == admin && entry?.scope == .lifecycle
                        // On the admin API, operators make links for phones with their keys.
                        let isOrder = endpoint == admin && entry?.scope == .provisioning
                        let wanted = isOrder ? .admin : entry?.scope
                        let isRead = isFigure || (wanted == .admin && operation.method == "GET")
                        let scope = isRead ? .adminRead : wanted
                        #expect(entry != nil && scope == operation.scope, "\(operation)")
                        try await check(operation, daemon, endpoint)
                    }
                }
                #expect(count >= 80)
            }
        }

        @Test func `a removed key gives no access any more, even on an open connection`() async throws {
            try await RunningDaemon.with({ $0.admin.listen = [Endpoint(.loopbackV4, 0)] }) { daemon async throws in
                let key = APIKeyRequest(name: "x", secret: try secret(.tokensRead), scopes: [.tokensRead])
                let body = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
                #expect(try await daemon.order("PUT", "/v1/apikeys", body).status == 200)
                let text = try secret(.tokensRead).text
                try await withLoop { loop async throws in
                    let session = await Bench(loop).run { HTTPSession(on: $0.loop) }
                    func status() async throws -> Int {
                        try await session.response(
                            to: HTTPClientRequest(
                                method: "GET", url: "http://\(daemon.api)/v1/dead-tokens",
                                headers: [HTTPField("Authorization", "Bearer \(text)")])
                        ).status
                    }
                    #expect(try await status() == 200)
                    #expect(try await daemon.order("DELETE", "/v1/apikeys/x").status == 200)
                    #expect(try await status() == 401)
                    await Bench(loop).run { _ in session.close() }
                }
            }
        }

        private func check(_ operation: Operation, _ daemon: RunningDaemon, _ endpoint: Endpoint) async throws {
            // The command to drain is invalid, because a valid command would end the daemon.
            let path =
                operation.path.replacing(/\{[A-Za-z]+\}/, with: "x")
                + (operation.path == "/v1/drain" ? "?within=x" : "")
            func status(_ key: String?) async throws -> Int {
                let field = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
                let answer = try await daemon.answer(
                    "\(operation.method) \(path) HTTP/1.1\r\nHost: a\r\n\(field)Connection: close\r\n\r\n",
                    from: endpoint)
                return RunningDaemon.statuses(answer).first ?? 0
            }
            guard let scope = operation.scope else {
                let open = try await status(nil)
                #expect(open != 401 && open != 403, "\(operation)")
                return
            }
            #expect(try await status(nil) == 401, "\(operation)")
            for other in APIScope.allCases {
                let isAllowed =
                    other == scope || other == .admin || (other == .lifecycle && scope == .lifecycleReport)
                    || (other == .adminRead && scope == .metrics)
                let found = try await status(try secret(other).text)
                #expect(found != 401 && (found == 403) != isAllowed, "\(operation) with \(other): \(found)")
            }
        }
    }
}
