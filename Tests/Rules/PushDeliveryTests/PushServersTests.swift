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
        let first = servers.server(of: app, at: "https://a.example")
        #expect(servers.server(of: app, at: "https://a.example") === first)
        #expect(servers.server(of: app, at: "https://b.example") !== first)
        #expect(servers.all.count == 3 && servers.limit == 180)
        // When one server of an app has accepted a push, the daemon knows that the credentials are valid for all
        // servers of the app.
        #expect(servers.server(of: app, at: "https://b.example").standing === first.standing)
    }

    @Test func `the sixty-fifth server replaces an idle one, and one that is down only as the last choice`() throws {
        var (servers, app) = try servers()
        let named = (0..<64).map { servers.server(of: app, at: "https://\($0).example") }
        for server in named { server.pushes = 1 }
        #expect(servers.server(of: app, at: "https://late.example") === servers.server(of: app))

        // In the test, push servers 5 and 9 are idle. Server 5 is marked as down.
        named[5].pushes = 0
        named[9].pushes = 0
        fail(named[5])
        #expect(named[5].queue.isBreakerOpen)
        let late = servers.server(of: app, at: "https://late.example")
        #expect(late.number == named[9].number && servers.all.count == 65)
        late.pushes = 1
        let later = servers.server(of: app, at: "https://later.example")
        #expect(later.number == named[5].number)
        later.pushes = 1
        // Another server has replaced server 9, so pushes for the name of server 9 use the app's own server.
        #expect(servers.server(of: app, at: "https://9.example") === servers.server(of: app))
    }

    @Test func `an app can be reached as long as one of its servers can`() throws {
        var (servers, app) = try servers()
        let first = servers.server(of: app, at: "https://a.example")
        let second = servers.server(of: app, at: "https://b.example")
        fail(first)
        #expect(servers.reports.first?.report.isReachable == true)
        fail(second)
        #expect(servers.reports.first?.report.isReachable == false)
    }
}
