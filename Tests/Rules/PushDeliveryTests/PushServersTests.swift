import Settings
import Testing
import Timekeeping

@testable import PushDelivery

@Suite("Servers of push providers")
struct PushServersTests {
    private let now = Instant(nanoseconds: 1_000_000_000)

    private func servers(requests: Int = 10, queue: Int = 20) throws -> (PushServers, PushApp.ID) {
        let yaml = """
            webpush: {enabled: true, vapid-key-file: /k.pem, vapid-contact: "mailto:a@example.net", limits: {requests: \(requests), queue: \(queue)}}
            """
        let directory = PushDirectory(try PushSettings(yaml: Array(yaml.utf8), file: "f"))
        let app = try #require(directory.apps.first)
        return (PushServers(directory, plainLimit: 4), app.id)
    }

    private func server(at origin: String, of app: PushApp.ID, in servers: inout PushServers) throws -> PushServer {
        let server = servers.server(of: app, at: origin)
        return try #require(server)
    }

    /// Lets five pushes fail one after the other, so that the circuit breaker opens.
    private func fail(_ server: PushServer) {
        for second in 1...5 {
            _ = server.queue.arrived(PushID(rawValue: 1), now: now + .seconds(second))
            server.queue.left(.failed, now: now + .seconds(second))
        }
    }

    @Test func `a token without a server uses the app's own`() throws {
        var (servers, app) = try servers()
        #expect(servers.server(of: app, at: nil) === servers.server(of: app))
        #expect(servers.server(of: app).number == nil && servers.all.count == 1 && servers.limit == 60)
    }

    @Test func `each server that tokens name has its own queue`() throws {
        var (servers, app) = try servers()
        let first = try server(at: "https://a.example", of: app, in: &servers)
        #expect(servers.server(of: app, at: "https://a.example") === first)
        #expect(servers.server(of: app, at: "https://b.example") !== first)
        #expect(servers.all.count == 3 && servers.limit == 180)
        // When one server of an app has accepted a push, the daemon knows that the credentials are valid for all
        // servers of this app.
        #expect(servers.server(of: app, at: "https://b.example")?.standing === first.standing)
    }

    @Test func `the sixty-fifth server replaces an idle one, and one that is down only as the last choice`() throws {
        var (servers, app) = try servers()
        let named = (0..<64).compactMap { servers.server(of: app, at: "https://\($0).example") }
        for server in named { server.pushes = 1 }
        #expect(servers.server(of: app, at: "https://late.example") === servers.server(of: app))

        // In the test, push servers 5 and 9 are idle. Server 5 is marked as down.
        named[5].pushes = 0
        named[9].pushes = 0
        fail(named[5])
        #expect(named[5].queue.breaker.isOpen)
        let late = try server(at: "https://late.example", of: app, in: &servers)
        #expect(late.number == named[9].number && servers.all.count == 65)
        late.pushes = 1
        let later = try server(at: "https://later.example", of: app, in: &servers)
        #expect(later.number == named[5].number)
        later.pushes = 1
        // Another server has replaced server 9, so pushes for the name of server 9 use the app's own server.
        #expect(servers.server(of: app, at: "https://9.example") === servers.server(of: app))
    }

    private func strangers() throws -> (PushServers, PushApp.ID) {
        let yaml = """
            webpush: {enabled: true, vapid-key-file: /k.pem, vapid-contact: "mailto:a@example.net", any-host: true}
            """
        let directory = PushDirectory(try PushSettings(yaml: Array(yaml.utf8), file: "f"))
        let app = try #require(directory.apps.first { $0.name == "webpush/unifiedpush" })
        return (PushServers(directory, plainLimit: 4), app.id)
    }

    @Test func `servers that phones choose use up no place of other servers (T46.7)`() throws {
        var (servers, app) = try strangers()
        let listed = PushApp.ID(index: 0)
        for number in 0..<PushServers.chosenLimit {
            let server = try server(at: "https://\(number).example", of: app, in: &servers)
            server.pushes = 1
        }
        #expect(servers.server(of: app, at: "https://late.example") == nil)
        // A server of the settings still has a place and a queue of its own.
        let mozilla = try server(at: "https://updates.push.services.mozilla.com", of: listed, in: &servers)
        #expect(mozilla !== servers.server(of: listed) && mozilla.number.map { $0 < 64 } == true)
    }

    @Test func `a thousand hosts leave a bounded number of states, and no count is lost (T46.7)`() throws {
        var (servers, app) = try strangers()
        for number in 0..<1000 {
            let server = try server(at: "https://\(number).example", of: app, in: &servers)
            server.standing.report.count(.accepted(nil), at: UnixTime(seconds: 1))
            server.standing.report.limited += 1
        }
        #expect(servers.all.count == 2 + PushServers.chosenLimit)
        let report = try #require(servers.reports.first { $0.app.id == app }?.report)
        #expect(report.accepted == 1000 && report.limited == 1000)
        #expect(report.hosts.count == PushHostReport.limit && report.hostCount == PushServers.chosenLimit)
    }

    @Test func `one host that refuses or is away says nothing about the app (T46.8)`() throws {
        var (servers, app) = try strangers()
        let hostile = try server(at: "https://up.example:8443", of: app, in: &servers)
        hostile.standing.report.count(.credentialsRefused("status 403"), at: UnixTime(seconds: 1))
        fail(hostile)
        let report = try #require(servers.reports.first { $0.app.id == app }?.report)
        #expect(report.refusal == nil && report.isReachable && report.credentialsRefused == 1)
        let host = try #require(report.hosts.first)
        #expect(host.host == "up.example:8443" && host.refusal == "status 403" && !host.isReachable)
        #expect(servers.server(of: app, at: "https://other.example")?.standing !== hostile.standing)
    }

    @Test func `an app can be reached as long as one of its servers can`() throws {
        var (servers, app) = try servers()
        let first = try server(at: "https://a.example", of: app, in: &servers)
        let second = try server(at: "https://b.example", of: app, in: &servers)
        fail(first)
        #expect(servers.reports.first?.report.isReachable == true)
        fail(second)
        #expect(servers.reports.first?.report.isReachable == false)
    }
}
