import Addressing
import Foundation
import JSON
import LoopTesting
import Persistence
import ProxyDaemon
import Registration
import StoreTesting
import TestSupport
import Testing

@testable import Control
@testable import HTTPServices

extension RunningDaemonSuites {
    /// Tests the HTTP routes for the rules of users (T49).
    @Suite("Routes for rules of users", .timeLimit(.minutes(10)))
    struct UserRulesRouteTests {
        private static let path = "/v1/users/100@example.net/rules"
        private static let night = #"{"doNotDisturb":{"always":true,"status":486}}"#

        private func withAdmin(_ body: (RunningDaemon) async throws -> Void) async throws {
            try await RunningDaemon.with({ $0.admin.listen = [Endpoint(.loopbackV4, 0)] }, body)
        }

        private func key(_ name: String, _ scope: APIScope, domains: [String]? = nil, _ daemon: RunningDaemon)
            async throws -> String
        {
            let secret = try APIKeySecret.make()
            let key = APIKeyRequest(name: name, secret: secret, scopes: [scope], domains: domains)
            let body = String(decoding: try JSONEncoder().encode(key), as: UTF8.self)
            #expect(try await daemon.order("PUT", "/v1/apikeys", body).status == 200)
            return secret.text
        }

        @Test func `rules are set, shown, explained and removed`() async throws {
            try await withAdmin { daemon async throws in
                #expect(try await daemon.order("GET", Self.path).body == "{}")
                #expect(try await daemon.order("PUT", Self.path, Self.night).status == 200)
                #expect(try await daemon.order("GET", Self.path).body == Self.night)
                let explained = try await daemon.order("GET", "/v1/explain/100@example.net?words=true").body
                #expect(explained.contains("do not disturb always: callers get 486"), "\(explained)")
                #expect(explained.contains("no device rings now (always)"), "\(explained)")
                #expect(try await daemon.order("DELETE", Self.path).status == 200)
                #expect(try await daemon.order("GET", Self.path).body == "{}")
            }
        }

        @Test func `rules survive a restart, and leave with their user`() async throws {
            let folder = try StoreFolder()
            let first = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
            #expect(try await first.order("PUT", Self.path, Self.night).status == 200)
            try await first.stop()
            let second = try await RunningDaemon.start(folder) { $0.admin.listen = [Endpoint(.loopbackV4, 0)] }
            #expect(try await second.order("GET", Self.path).body == Self.night)
            #expect(try await second.order("DELETE", "/v1/users/100@example.net").status == 200)
            let user = #"{"name":"100@example.net","password":"p"}"#
            #expect(try await second.order("PUT", "/v1/users", user).status == 200)
            #expect(try await second.order("GET", Self.path).body == "{}")
            try await second.stop()
        }

        @Test func `faulty rules change nothing`() async throws {
            try await withAdmin { daemon async throws in
                #expect(try await daemon.order("PUT", Self.path, Self.night).status == 200)
                for body in [
                    "", "[]", #"{"order":"x"}"#, #"{"devices":[{"device":"zzzzz","delay":1}]}"#, #"{"odrer":"q"}"#,
                ] {
                    let answer = try await daemon.order("PUT", Self.path, body)
                    #expect(answer.status == 400 && answer.body.contains("the rules are refused"), "\(body)")
                }
                #expect(try await daemon.order("GET", Self.path).body == Self.night)
                #expect(try await daemon.order("PUT", "/v1/users/999@example.net/rules", Self.night).status == 404)
                #expect(try await daemon.order("PUT", "/v1/users/100@example.com/rules", Self.night).status == 404)
                #expect(try await daemon.order("PUT", Self.path, "{}").status == 200)
                #expect(try await daemon.order("GET", Self.path).body == "{}")
            }
        }

        @Test func `only an administrator of the domain sets rules`() async throws {
            try await withAdmin { daemon async throws in
                let reader = try await key("reads", .adminRead, daemon)
                let other = try await key("other", .admin, domains: ["example.org"], daemon)
                let own = try await key("own", .admin, domains: ["example.net"], daemon)
                #expect(try await daemon.order("PUT", Self.path, Self.night, key: reader).status == 403)
                #expect(try await daemon.order("DELETE", Self.path, key: reader).status == 403)
                #expect(try await daemon.order("PUT", Self.path, Self.night, key: other).status == 404)
                #expect(try await daemon.order("GET", Self.path, key: other).status == 404)
                #expect(try await daemon.order("DELETE", Self.path, key: other).status == 404)
                #expect(try await daemon.order("PUT", Self.path, Self.night, key: nil).status == 401)
                #expect(try await daemon.order("GET", Self.path).body == "{}")
                #expect(try await daemon.order("PUT", Self.path, Self.night, key: own).status == 200)
                #expect(try await daemon.order("GET", Self.path, key: reader).body == Self.night)
            }
        }
    }
}
