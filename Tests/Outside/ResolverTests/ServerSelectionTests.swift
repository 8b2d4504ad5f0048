import Addressing
import Resolver
import TestSupport
import Testing

@Suite("Locating SIP servers (RFC 3263)")
struct ServerSelectionTests {
    private static let v4 = IPAddress(v4: 0xc000_0201)
    private static let v6 = IPAddress(high: 0x2001_0db8_0000_0000, low: 1)
    private static let other = IPAddress(v4: 0xc000_0202)

    /// Runs all steps of the server selection with the given DNS answers. A name that is not in the list does not
    /// exist.
    private func locate(
        _ query: ServerQuery, _ answers: [DNSQuestion: DNSAnswer] = [:], seed: UInt64 = 1
    ) -> (outcome: Result<[ServerCandidate], ResolverError>, asked: [DNSQuestion]) {
        var random = SeededGenerator(seed: seed)
        var known: [DNSQuestion: DNSAnswer] = [:]
        var asked: [DNSQuestion] = []
        while true {
            switch ServerSelection.step(for: query, known: known, using: &random) {
            case .found(let candidates): return (.success(candidates), asked)
            case .failed(let error): return (.failure(error), asked)
            case .ask(let questions):
                #expect(questions.allSatisfy { known[$0] == nil } && !questions.isEmpty)
                guard !questions.isEmpty else { return (.failure(.notFound), asked) }
                asked += questions
                for question in questions { known[question] = answers[question] ?? .nothing }
            }
        }
    }

    private func candidate(_ transport: Transport, _ address: IPAddress, _ port: UInt16) -> ServerCandidate {
        ServerCandidate(transport, Endpoint(address, port))
    }

    @Test(arguments: [
        (ServerQuery(host: "192.0.2.1"), Transport.udp, 5060),
        (ServerQuery(host: "192.0.2.1", port: 5070), .udp, 5070),
        (ServerQuery(host: "192.0.2.1", transport: .tcp), .tcp, 5060),
        (ServerQuery(host: "192.0.2.1", transport: .tls), .tls, 5061),
        (ServerQuery(host: "192.0.2.1", isSecure: true), .tls, 5061),
        (ServerQuery(host: "192.0.2.1", transport: .tcp, isSecure: true), .tls, 5061),
        (ServerQuery(host: "192.0.2.1", transport: .ws, isSecure: true), .wss, 443),
    ])
    func `numeric hosts need no question`(query: ServerQuery, transport: Transport, port: Int) {
        let (outcome, asked) = locate(query)
        #expect(outcome == .success([candidate(transport, Self.v4, UInt16(port))]))
        #expect(asked.isEmpty)
    }

    @Test func `IPv6 hosts come with or without brackets`() {
        for host in ["2001:db8::1", "[2001:db8::1]"] {
            #expect(locate(ServerQuery(host: host)).outcome == .success([candidate(.udp, Self.v6, 5060)]))
        }
    }

    @Test(arguments: [
        ServerQuery(host: "a.example", transport: .udp, isSecure: true), ServerQuery(host: ""),
        ServerQuery(host: "a b"), ServerQuery(host: ".a"), ServerQuery(host: "a..b"), ServerQuery(host: "a\u{0}b"),
        ServerQuery(host: "ä.example"), ServerQuery(host: String(repeating: "a", count: 64)),
        ServerQuery(host: String(repeating: "a.", count: 127)), ServerQuery(host: "999.1.1.1:5060"),
    ])
    func `a host that cannot be a name is refused without a question`(query: ServerQuery) {
        let (outcome, asked) = locate(query)
        #expect(outcome == .failure(.invalidQuery))
        #expect(asked.isEmpty)
    }

    @Test func `a port leads straight to the addresses`() {
        let (outcome, asked) = locate(
            ServerQuery(host: "a.example", port: 5080),
            [DNSQuestion(.addresses, "a.example"): .addresses([Self.v6, Self.v4])])
        #expect(outcome == .success([candidate(.udp, Self.v6, 5080), candidate(.udp, Self.v4, 5080)]))
        #expect(asked == [DNSQuestion(.addresses, "a.example")])
    }

    @Test func `a transport leads to its SRV records, and without them to the standard port`() {
        let addresses: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.addresses, "a.example"): .addresses([Self.v4]),
            DNSQuestion(.addresses, "b.example"): .addresses([Self.other]),
        ]
        for (transport, name, port) in [
            (Transport.udp, "_sip._udp.a.example", UInt16(5060)), (.tcp, "_sip._tcp.a.example", 5060),
            (.tls, "_sips._tcp.a.example", 5061),
        ] {
            let query = ServerQuery(host: "a.example", transport: transport)
            let without = locate(query, addresses)
            #expect(without.outcome == .success([candidate(transport, Self.v4, port)]))
            #expect(without.asked == [DNSQuestion(.srv, name), DNSQuestion(.addresses, "a.example")])

            let record = SRVRecord(priority: 1, weight: 0, port: 7000, target: "B.example.")
            let with = locate(query, addresses.merging([DNSQuestion(.srv, name): .srv([record])]) { $1 })
            #expect(with.outcome == .success([candidate(transport, Self.other, 7000)]))
        }
    }

    @Test func `NAPTR records choose the transport in their order`() {
        let naptr: [NAPTRRecord] = [
            NAPTRRecord(order: 20, preference: 1, flags: "s", service: "SIP+D2U", replacement: "_sip._udp.a.example"),
            NAPTRRecord(order: 10, preference: 2, flags: "S", service: "sip+d2t", replacement: "_x.a.example"),
            NAPTRRecord(order: 10, preference: 1, flags: "s", service: "SIPS+D2T", replacement: "_sips._tcp.a.example"),
            NAPTRRecord(order: 1, preference: 1, flags: "s", service: "SIP+D2S", replacement: "_sctp.a.example"),
            NAPTRRecord(order: 1, preference: 1, flags: "u", service: "E2U+sip", replacement: ""),
        ]
        let answers: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.naptr, "a.example"): .naptr(naptr),
            DNSQuestion(.srv, "_sip._udp.a.example"):
                .srv([SRVRecord(priority: 0, weight: 0, port: 1, target: "h.example")]),
            DNSQuestion(.srv, "_x.a.example"): .srv([SRVRecord(priority: 0, weight: 0, port: 2, target: "h.example")]),
            DNSQuestion(.srv, "_sips._tcp.a.example"):
                .srv([SRVRecord(priority: 0, weight: 0, port: 3, target: "h.example")]),
            DNSQuestion(.addresses, "h.example"): .addresses([Self.v4]),
        ]
        #expect(
            locate(ServerQuery(host: "a.example"), answers).outcome
                == .success([candidate(.tls, Self.v4, 3), candidate(.tcp, Self.v4, 2), candidate(.udp, Self.v4, 1)]))
        #expect(
            locate(ServerQuery(host: "a.example", isSecure: true), answers).outcome
                == .success([candidate(.tls, Self.v4, 3)]))
    }

    @Test func `without NAPTR records, the SRV records of UDP and TCP are tried, and for sips only those of TLS`() {
        let answers: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.srv, "_sip._tcp.a.example"):
                .srv([SRVRecord(priority: 0, weight: 0, port: 7, target: "h.example")]),
            DNSQuestion(.addresses, "h.example"): .addresses([Self.v4]),
        ]
        let plain = locate(ServerQuery(host: "a.example"), answers)
        #expect(plain.outcome == .success([candidate(.tcp, Self.v4, 7)]))
        #expect(
            plain.asked == [
                DNSQuestion(.naptr, "a.example"), DNSQuestion(.srv, "_sip._udp.a.example"),
                DNSQuestion(.srv, "_sip._tcp.a.example"), DNSQuestion(.addresses, "h.example"),
            ])
        let secure = locate(ServerQuery(host: "a.example", isSecure: true), answers)
        #expect(secure.outcome == .failure(.notFound))
        #expect(secure.asked.contains(DNSQuestion(.srv, "_sips._tcp.a.example")))
        #expect(!secure.asked.contains { $0.name.hasPrefix("_sip.") })
    }

    @Test func `with no records but addresses the standard transport and port are used`() {
        let answers: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.naptr, "a.example"): .failed, DNSQuestion(.addresses, "a.example"): .addresses([Self.v4]),
        ]
        #expect(locate(ServerQuery(host: "a.example"), answers).outcome == .success([candidate(.udp, Self.v4, 5060)]))
        #expect(
            locate(ServerQuery(host: "A.Example.", isSecure: true), answers).outcome
                == .success([candidate(.tls, Self.v4, 5061)]))
    }

    @Test func `a service that is decidedly not there has no candidates`() {
        let none = DNSAnswer.srv([SRVRecord(priority: 0, weight: 0, port: 0, target: "")])
        let answers: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.srv, "_sip._udp.a.example"): none, DNSQuestion(.addresses, "a.example"): .addresses([Self.v4]),
        ]
        #expect(locate(ServerQuery(host: "a.example", transport: .udp), answers).outcome == .failure(.notFound))
    }

    @Test func `a failed question differs from an empty answer`() {
        let srv = DNSQuestion(.srv, "_sip._udp.a.example")
        let addresses = DNSQuestion(.addresses, "a.example")
        let query = ServerQuery(host: "a.example", transport: .udp)
        #expect(locate(query, [srv: .failed, addresses: .addresses([Self.v4])]).outcome == .failure(.unavailable))
        #expect(locate(query, [addresses: .failed]).outcome == .failure(.unavailable))
        #expect(locate(query).outcome == .failure(.notFound))
        let two = DNSAnswer.srv([
            SRVRecord(priority: 1, weight: 0, port: 1, target: "dead.example"),
            SRVRecord(priority: 2, weight: 0, port: 2, target: "a.example"),
        ])
        let dead = DNSQuestion(.addresses, "dead.example")
        #expect(
            locate(query, [srv: two, dead: .failed, addresses: .addresses([Self.v4])]).outcome
                == .success([candidate(.udp, Self.v4, 2)]))
    }

    @Test func `SRV records are ordered by priority, and by weight within one`() {
        let records = [
            SRVRecord(priority: 2, weight: 100, port: 20, target: "h"),
            SRVRecord(priority: 1, weight: 0, port: 10, target: "h"),
            SRVRecord(priority: 1, weight: 30, port: 11, target: "h"),
            SRVRecord(priority: 1, weight: 10, port: 12, target: "h"),
        ]
        let answers: [DNSQuestion: DNSAnswer] = [
            DNSQuestion(.srv, "_sip._udp.a"): .srv(records), DNSQuestion(.addresses, "h"): .addresses([Self.v4]),
        ]
        var firsts: [UInt16: Int] = [:]
        for seed in 1...4000 {
            guard
                case .success(let candidates) = locate(
                    ServerQuery(host: "a", transport: .udp), answers, seed: UInt64(seed)
                ).outcome
            else { return #expect(Bool(false)) }
            let ports = candidates.map(\.endpoint.port)
            #expect(ports.count == 4 && ports.last == 20)
            firsts[ports[0], default: 0] += 1
        }
        // The expected numbers are 1/41, 30/41 and 10/41 of 4,000, by the weights of the records.
        #expect((40...180).contains(firsts[10] ?? 0))
        #expect((2750...3100).contains(firsts[11] ?? 0))
        #expect((850...1100).contains(firsts[12] ?? 0))
        #expect(firsts[20] == nil)
    }

    @Test func `somebody's thousand records lead to few questions and candidates`() {
        let naptr = (0..<1000).map {
            NAPTRRecord(order: 1, preference: UInt16($0), flags: "s", service: "SIP+D2U", replacement: "s\($0)")
        }
        let srv = (0..<1000).map { SRVRecord(priority: 1, weight: 1, port: UInt16($0), target: "h\($0)") }
        var answers: [DNSQuestion: DNSAnswer] = [DNSQuestion(.naptr, "a"): .naptr(naptr)]
        for number in 0..<1000 {
            answers[DNSQuestion(.srv, "s\(number)")] = .srv(srv)
            answers[DNSQuestion(.addresses, "h\(number)")] = .addresses(Array(repeating: Self.v4, count: 100))
        }
        let (outcome, asked) = locate(ServerQuery(host: "a"), answers)
        #expect((try? outcome.get())?.count == ServerSelection.candidateLimit)
        #expect(asked.count <= 1 + 4 + 16)
    }
}
