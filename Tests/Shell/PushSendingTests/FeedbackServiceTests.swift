import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import ProxyCore
import PushDelivery
import Reactor
import Registration
import Telemetry
import Testing
import Timekeeping

@testable import PushSending

@Suite("Feedback service", .timeLimit(.minutes(10)))
struct FeedbackServiceTests {
    /// A feedback server that asks for the client's certificate, sends its data in slices, and closes the connection.
    private final class Server: @unchecked Sendable {
        private(set) var endpoint = Endpoint(.loopbackV4, 0)
        private(set) var connections = 0
        private var listener: StreamListener?
        private var open: [StreamConnection] = []
        private let slices: [[UInt8]]
        /// Whether the server keeps the connection open after its data.
        var stays = false

        init(_ slices: [[UInt8]], certificates: Certificates, on loop: EventLoop) throws {
            self.slices = slices
            let tls = try TLSContext.server(
                certificate: .bytes(certificates.server.certificate), key: .bytes(certificates.server.key),
                clientAuthority: .bytes(certificates.client.certificate))
            let listener = try StreamListener(boundTo: Endpoint(.loopbackV4, 0), on: loop, tls: tls, limit: 10) {
                [unowned self] connection in
                connections += 1
                open.append(connection)
                try? connection.start(
                    StreamConnection.Handlers(
                        connected: { [unowned self] in serve($0) }, received: { $1.count }, closed: { _, _ in }))
            }
            self.listener = listener
            endpoint = listener.local
        }

        private func serve(_ connection: StreamConnection) {
            for slice in slices { connection.send(slice) }
            if !stays { finish() }
        }

        func finish() {
            for connection in open { connection.close(flushing: true) }
        }

        func close() {
            listener = nil
            for connection in open { connection.close() }
        }
    }

    private struct Certificates: Sendable {
        let server: SelfSignedCertificate
        let client: SelfSignedCertificate
        let folder: String

        init(_ folder: TestFolder) throws {
            server = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            client = try SelfSignedCertificate(hosts: ["client"])
            self.folder = folder.path
            for (name, bytes) in [
                ("server.pem", server.certificate), ("client.pem", client.certificate), ("client.key", client.key),
            ] { try Data(bytes).write(to: URL(filePath: folder.path + "/" + name)) }
        }

        func settings(_ endpoint: Endpoint) -> PushSettings {
            var settings = PushSettings()
            settings.apns.enabled = true
            settings.apns.certFile = folder + "/client.pem"
            settings.apns.certKeyFile = folder + "/client.key"
            settings.apns.feedback.endpoint = HostAndPort("\(endpoint)")
            settings.apns.feedback.caFile = folder + "/server.pem"
            return settings
        }
    }

    /// A stand-in for the search for contacts with dead tokens. The stand-in records the tokens, and returns the
    /// answers that the test chooses.
    private final class Contacts: @unchecked Sendable {
        var asked: [[ByteString: UInt32]] = []
        var answers: [DeadTokenFindings] = []

        func search(_ dead: [ByteString: UInt32], _ cursor: BindingCursor, _ limit: Int) -> DeadTokenFindings {
            asked.append(dead)
            return answers.isEmpty ? DeadTokenFindings() : answers.removeFirst()
        }
    }

    private static func record(_ second: UInt32, _ byte: UInt8) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: second >> $0) } + [0, 32] + [UInt8](repeating: byte, count: 32)
    }

    private static func token(_ byte: UInt8) -> ByteString {
        ByteString(String(repeating: byte < 16 ? "0\(String(byte, radix: 16))" : String(byte, radix: 16), count: 32))
    }

    /// Owns the feedback service until the test releases the value. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses the service.
    private struct Kept: @unchecked Sendable {
        let service: FeedbackService
    }

    /// Performs one feedback query against a server, and passes its report to the body.
    private func report(
        of slices: [[UInt8]], contacts: Contacts, change: @Sendable (inout PushSettings) -> Void = { _ in },
        _ body: (FeedbackReport, _ server: Server) -> Void
    ) async throws {
        try await withFolder { folder in
            let certificates = try Certificates(folder)
            try await withLoop { loop in
                let reports = Mailbox<FeedbackReport>()
                let (server, kept) = try await Bench(loop).run { bench in
                    let server = try Server(slices, certificates: certificates, on: bench.loop)
                    var settings = certificates.settings(server.endpoint)
                    change(&settings)
                    let service = try #require(
                        try FeedbackService(settings: settings, loop: bench.loop, log: .silent, search: contacts.search)
                    )
                    service.pull { reports.put($0) }
                    return (server, Kept(service: service))
                }
                body(try await reports.next(), server)
                await Bench(loop).run { _ in
                    server.close()
                    withExtendedLifetime(kept) {}
                }
            }
        }
    }

    @Test func `records are read over TLS with our certificate, and the contacts searched`() async throws {
        let contacts = Contacts()
        var findings = DeadTokenFindings()
        findings.dropped = 2
        findings.newer = 1
        findings.matched = [Self.token(1), Self.token(2)]
        contacts.answers = [findings]
        let bytes = Self.record(1000, 1) + Self.record(2000, 2) + Self.record(3000, 1) + Self.record(0x8000_0001, 3)
        // The first slice ends in the middle of a record, and the stream ends with an incomplete record.
        let slices = [Array(bytes[..<50]), Array(bytes[50..<51]), Array(bytes[51...]) + [0, 0, 1]]
        try await report(of: slices, contacts: contacts) { report, _ in
            #expect(report.records == 4)
            #expect(report.contactsDropped == 2)
            #expect(report.ignoredAsOlder == 1)
            #expect(report.unknown == 1)
            #expect(report.failures.isEmpty)
            // If the feedback server lists a token several times, only the latest time counts.
            #expect(
                contacts.asked == [[Self.token(1): 3000, Self.token(2): 2000, Self.token(3): 0x8000_0001]])
        }
    }

    @Test func `no record is a normal answer`() async throws {
        let contacts = Contacts()
        try await report(of: [], contacts: contacts) { report, _ in
            #expect(report == FeedbackReport())
            #expect(contacts.asked.isEmpty)
        }
    }

    @Test func `a long search takes several turns of the loop`() async throws {
        let contacts = Contacts()
        var part = DeadTokenFindings()
        part.dropped = 1
        part.matched = [Self.token(1)]
        part.next = BindingCursor()
        var last = part
        last.next = nil
        contacts.answers = [part, part, last]
        try await report(of: [Self.record(1, 1)], contacts: contacts) { report, _ in
            #expect(report.contactsDropped == 3)
            #expect(report.unknown == 0)
            #expect(contacts.asked.count == 3)
        }
    }

    @Test func `records before an impossible one count`() async throws {
        let contacts = Contacts()
        let bytes = Self.record(1, 1) + [0, 0, 0, 1, 2, 0] + [UInt8](repeating: 7, count: 100)
        try await report(of: [Self.record(9, 9), bytes], contacts: contacts) { report, _ in
            #expect(report.records == 2)
            #expect(report.unknown == 2)
            #expect(report.failures.count == 1)
            #expect(contacts.asked.count == 1)
        }
    }

    @Test func `a server with a wrong certificate is refused`() async throws {
        let contacts = Contacts()
        try await report(of: [Self.record(1, 1)], contacts: contacts) { settings in
            // The client refuses the server, because the client trusts only its own certificate, which has signed no
            // other.
            settings.apns.feedback.caFile = settings.apns.certFile
        } _: { report, _ in
            #expect(report.records == 0)
            #expect(report.failures.count == 1)
            #expect(contacts.asked.isEmpty)
        }
    }

    @Test func `a server that cannot be reached is reported, and the next one is asked`() async throws {
        let contacts = Contacts()
        try await report(of: [Self.record(1, 1)], contacts: contacts) { settings in
            var second = settings.apns
            settings.apns.feedback.endpoint = HostAndPort("127.0.0.1:1")
            second.apps = [:]
            settings.apns.apps = ["second": second]
        } _: { report, _ in
            #expect(report.records == 1)
            #expect(report.failures.count == 1)
            #expect(report.failures.first?.hasPrefix("127.0.0.1:1: ") == true)
        }
    }

    @Test func `a request during a round gets its report`() async throws {
        try await withFolder { folder in
            let certificates = try Certificates(folder)
            try await withLoop { loop in
                let contacts = Contacts()
                let reports = Mailbox<FeedbackReport>()
                let (server, kept) = try await Bench(loop).run { bench in
                    let server = try Server([Self.record(1, 1)], certificates: certificates, on: bench.loop)
                    let service = try #require(
                        try FeedbackService(
                            settings: certificates.settings(server.endpoint), loop: bench.loop, log: .silent,
                            search: contacts.search))
                    for _ in 0..<2 { service.pull { reports.put($0) } }
                    return (server, Kept(service: service))
                }
                for _ in 0..<2 {
                    let report = try await reports.next()
                    #expect(report.records == 1)
                }
                let connections = await Bench(loop).run { _ in server.connections }
                #expect(connections == 1)
                await Bench(loop).run { _ in
                    server.close()
                    withExtendedLifetime(kept) {}
                }
            }
        }
    }

    @Test(arguments: [true, false])
    func `in a cluster, the users of dead tokens are read from the database before the search`(isStoreThere: Bool)
        async throws
    {
        try await withFolder { folder in
            let certificates = try Certificates(folder)
            try await withLoop { loop in
                let contacts = Contacts()
                let reports = Mailbox<FeedbackReport>()
                let recalled = Mailbox<(tokens: Set<ByteString>, searches: Int)>()
                let (server, kept) = try await Bench(loop).run { bench in
                    let server = try Server([Self.record(1, 1)], certificates: certificates, on: bench.loop)
                    let service = try #require(
                        try FeedbackService(
                            settings: certificates.settings(server.endpoint), loop: bench.loop, log: .silent,
                            recall: { tokens in
                                recalled.put((tokens, contacts.asked.count))
                                return isStoreThere
                            }, search: contacts.search))
                    service.pull { reports.put($0) }
                    return (server, Kept(service: service))
                }
                let report = try await reports.next()
                let (tokens, searches) = try await recalled.next()
                #expect(tokens == [Self.token(1)] && searches == 0)
                #expect(contacts.asked.count == 1)
                #expect(report.failures.isEmpty == isStoreThere)
                await Bench(loop).run { _ in
                    server.close()
                    withExtendedLifetime(kept) {}
                }
            }
        }
    }

    // MARK: Settings

    @Test func `each server is asked once, with the certificate that is nearest`() throws {
        var settings = APNsSettings()
        settings.enabled = true
        settings.certFile = "a.pem"
        settings.certKeyFile = "a.key"
        #expect(try FeedbackSource.all(in: settings).isEmpty)
        settings.feedback.endpoint = HostAndPort("one:2196")
        var same = settings
        same.topics = ["x"]
        var other = settings
        other.feedback.certFile = "b.pem"
        other.feedback.certKeyFile = "b.key"
        settings.apps = ["same": same, "other": other]
        let sources = try FeedbackSource.all(in: settings)
        #expect(sources.map(\.certFile) == ["a.pem", "b.pem"])
        #expect(sources.map(\.keyFile) == ["a.key", "b.key"])
        settings.enabled = false
        #expect(try FeedbackSource.all(in: settings).isEmpty)
    }

    @Test func `without a certificate the daemon does not start`() {
        var settings = APNsSettings()
        settings.enabled = true
        settings.feedback.endpoint = HostAndPort("one:2196")
        #expect(throws: PushSetupError.self) { try FeedbackSource.all(in: settings) }
    }
}
