import Bytes
import Foundation
import HTTP1Connections
import HTTPClient
import LoopTesting
import Persistence
import Reactor
import Storage
import StoreTesting
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import Control
@testable import HTTPServices
@testable import ProxyRuntime
import Registration

@Suite("Keys over the control socket", .timeLimit(.minutes(10)))
struct KeyRoutesTests {
    /// The parts of a daemon that must stay alive during the test. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses it.
    private struct Kept: @unchecked Sendable {
        let control: ControlService
        let keys: APIKeyRing
        let store: DatabaseStore
        let loop: EventLoop
        let log: MemoryLogSink
    }

    private func withControl(_ body: (Kept, _ socket: String, StoreFolder) async throws -> Void) async throws {
        let folder = try StoreFolder()
        let socket = folder.folder + "/control.sock"
        try await withLoop { loop in
            let store = try folder.open(loop: loop, log: .silent)
            let stored = try await store.keys().compactMap { APIKey($0) }
            let kept = try await Bench(loop).run { bench in
                let keys = APIKeyRing(stored)
                var router = ServiceRouter()
                KeyRoutes(keys: keys, domains: ["a.example", "b.example"], store: store, loop: bench.loop)
                    .register(in: &router)
                let sink = MemoryLogSink()
                let log = Log(level: .debug, sink: sink) { UnixTime(milliseconds: 0) }
                let control = try ControlService(path: socket, loop: bench.loop, router: router, log: log)
                return Kept(control: control, keys: keys, store: store, loop: loop, log: sink)
            }
            try await body(kept, socket, folder)
            await Bench(loop).run { _ in kept.store.close() }
        }
    }

    private func status(_ method: String, _ path: String, _ body: some Encodable, _ socket: String) throws -> Int {
        var request = HTTPClientRequest(
            method: method, url: "http://localhost\(path)", body: Array(try JSONEncoder().encode(body)))
        request.route.unixSocketPath = socket
        request.route.version = .http1
        return try HTTPSession.wait(for: request).status
    }

    @Test func `an added key is stored before the answer, and is valid at once`() async throws {
        try await withControl { kept, socket, folder in
            let secret = try APIKeySecret.make()
            let request = APIKeyRequest(name: "app", secret: secret, scopes: [.tokensRead])
            #expect(try status("PUT", "/v1/apikeys", request, socket) == 200)
            let stored = try await kept.store.keys()
            #expect(stored.map(\.name) == ["app"] && stored.map(\.scopes) == ["tokens.read"])
            let found = try await Bench(loopOf(kept)).run { _ in kept.keys.key(matching: secret)?.name }
            #expect(found == "app")
            // The daemon refuses a second key with the name of an existing key.
            #expect(try status("PUT", "/v1/apikeys", request, socket) == 409)
            // A GET only reads the keys, so the audit log does not contain the request.
            #expect(try status("GET", "/v1/apikeys", "", socket) == 200)
            let changes = kept.log.lines.filter { $0.contains("an API request made a change") }
            #expect(
                changes.count == 2
                    && changes.allSatisfy { $0.contains("api-key=\"control socket, uid \(getuid())\" method=PUT") })
            #expect(changes.first?.contains("status=200") == true && changes.last?.contains("status=409") == true)
        }
    }

    private func loopOf(_ kept: Kept) throws -> EventLoop { kept.loop }

    @Test func `a key that was removed is refused at once and not stored`() async throws {
        try await withControl { kept, socket, folder in
            let secret = try APIKeySecret.make()
            let request = APIKeyRequest(name: "app", secret: secret, scopes: [.admin])
            #expect(try status("PUT", "/v1/apikeys", request, socket) == 200)
            #expect(try status("DELETE", "/v1/apikeys/app", "", socket) == 200)
            #expect(try status("DELETE", "/v1/apikeys/app", "", socket) == 404)
            #expect(try await kept.store.keys().isEmpty)
            let found = try await Bench(loopOf(kept)).run { _ in kept.keys.key(matching: secret)?.name }
            #expect(found == nil)
        }
    }

    @Test(arguments: [
        #"{}"#, #"{"name":"a b","hash":"00","scopes":"admin"}"#, #"{"name":"a","hash":"00","scopes":"admin"}"#,
    ])
    func `invalid keys are refused`(body: String) async throws {
        try await withControl { _, socket, _ in
            var request = HTTPClientRequest(
                method: "PUT", url: "http://localhost/v1/apikeys", body: Array(body.utf8))
            request.route.unixSocketPath = socket
            request.route.version = .http1
            let status = try HTTPSession.wait(for: request).status
            #expect(status == 400)
        }
    }

    @Test func `a store that accepts no change is also reported without a daemon`() throws {
        let folder = try StoreFolder()
        let offline = OfflineStore(folder.place)
        let secret = try APIKeySecret.make()
        try offline.add(APIKeyRequest(name: "one", secret: secret, scopes: [.pushes]))
        let other = try Connection(path: folder.path, options: ConnectionOptions())
        try other.execute("CREATE TRIGGER no BEFORE INSERT ON api_key BEGIN SELECT raise(ABORT, 'no'); END")
        #expect(throws: StartError.self) {
            try offline.add(APIKeyRequest(name: "two", secret: secret, scopes: [.pushes]))
        }
        #expect(try offline.keys().map(\.name) == ["one"])
    }

    @Test func `without a daemon the store is changed, and a name means one key only`() throws {
        let folder = try StoreFolder()
        let offline = OfflineStore(folder.place)
        let request = APIKeyRequest(name: "app", secret: try APIKeySecret.make(), scopes: [.pushes])
        try offline.add(request)
        #expect(throws: StartError.self) { try offline.add(request) }
        #expect(try offline.keys().map(\.name) == ["app"])
        try offline.removeKey("app")
        #expect(throws: StartError.self) { try offline.removeKey("app") }
        #expect(try offline.keys().isEmpty)
    }

    @Test func `a key for domains needs domains of the daemon, with a daemon and without`() async throws {
        func request(_ name: String, _ domains: [String]?, _ scopes: Set<APIScope> = [.admin]) throws -> APIKeyRequest {
            APIKeyRequest(name: name, secret: try APIKeySecret.make(), scopes: scopes, domains: domains)
        }
        try await withControl { kept, socket, _ in
            for (domains, scope, expected) in [
                (["A.example", "b.example"], .admin, 200), (["c.example"], .admin, 400), ([], .admin, 400),
                (["a.example"], .metrics, 400),
            ] as [([String], APIScope, Int)] {
                let body = try request("k\(expected)", domains, [scope])
                let found = try status("PUT", "/v1/apikeys", body, socket)
                #expect(found == expected, "\(domains) \(scope)")
            }
            #expect(try await kept.store.keys().map(\.domains) == ["a.example,b.example"])
        }
        let folder = try StoreFolder()
        let offline = OfflineStore(folder.place, domains: ["A.example", "b.example"])
        try offline.add(try request("one", ["a.EXAMPLE"]))
        try offline.add(try request("all", nil))
        let error = #expect(throws: StartError.self) {
            try offline.add(try request("two", ["a.example", "c.example"]))
        }
        #expect(error?.description == "c.example is not one of this daemon's domains (A.example, b.example)")
        #expect(throws: StartError.self) { try offline.add(try request("two", [])) }
        #expect(try offline.keys().map(\.domains) == [nil, ["a.example"]])
    }

    @Test func `a realm of several domains belongs to none of them alone`() throws {
        func realms(_ realm: String?, _ domains: String...) throws -> [String]? {
            let scope = try #require(DomainScope(domains: domains))
            return UserRealms(domains: ["A.example", "b.example"], realms: Realms(common: realm)).realms(within: scope)?
                .map(\.string)
        }
        #expect(try realms(nil, "a.example") == ["a.example"])
        #expect(try realms(nil, "b.example", "a.example") == ["a.example", "b.example"])
        #expect(try realms(nil, "c.example") == [])
        #expect(try realms("pbx", "a.example") == [])
        #expect(try realms("pbx", "a.example", "B.example") == ["pbx"])
        // Accounts of a tenant belong to this tenant only, even if other domains have the same realm.
        let tenants = Realms(common: "pbx", tenants: [ByteString("b.example"): "pbx"])
        let scope = try #require(DomainScope(domains: ["b.example"]))
        #expect(
            UserRealms(domains: ["a.example", "b.example"], realms: tenants).realms(within: scope)?.map(\.string) == [
                "b.example"
            ])
        #expect(UserRealms(domains: ["a"], realms: Realms(common: nil)).realms(within: .wholeDaemon) == nil)
    }
}
