import ProxyPolicy
import Addressing
import Bytes
import LoopTesting
import ProxyCore
import ProxyRuntime
import Reactor
import Registration
import SIPGrammar
import Telemetry
import TestSupport
import Testing

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// Tests the rules T4.4, T9.1 to T9.4 and T9.9 of docs/Trust.md over the network.
    @Suite("Targets of a daemon", .timeLimit(.minutes(10)))
    struct RoutingDaemonTests {
        private struct Scene {
            let daemon: RunningDaemon
            let places: Places
            let pbx: Endpoint
            let tcp: Endpoint

            func figure(_ counter: Counter) async -> UInt64 {
                await daemon.door.ask(.everything) { engine, _ in engine.figures[counter] }
            }

            /// Waits until the daemon has seen the end of the connection.
            func hangUp(_ name: String) async throws {
                await places.hangUp(name)
                while await daemon.door.ask(
                    .everything,
                    { engine, now in
                        !engine.targets(of: Self.bob, now: now).allSatisfy { !$0.flow.isConnection }
                    })
                {
                    try Task.checkCancellation()
                    await Task.yield()
                }
            }

            static let bob = AddressOfRecord(user: ByteString("100"), host: ByteString("example.net"))

            func register(
                _ name: String, _ number: Int = 1, contact: String, path: String? = nil, transport: Transport = .tcp
            ) async {
                let rows = path.map { ["Path: \($0)"] } ?? []
                await places.send(
                    SIPText.register(
                        user: "100", from: Endpoint(.loopbackV4, 9), transport: transport, callID: "reg\(number)",
                        cseq: 1, branch: "reg\(number)", contact: contact, extra: rows), from: name,
                    to: transport == .tcp ? tcp : daemon.sip)
            }

            func ask(_ method: String, _ number: Int = 1, uri: String = "sip:100@example.net") async {
                await places.send(
                    SIPText.bytes([
                        "\(method) \(uri) SIP/2.0", "Via: SIP/2.0/UDP \(pbx);rport;branch=z9hG4bKm\(number)",
                        "From: <sip:103@example.net>;tag=m", "To: <sip:100@example.net>", "Call-ID: m\(number)",
                        "CSeq: 1 \(method)", "Max-Forwards: 70", "Contact: <sip:103@\(pbx)>",
                    ]), from: "pbx", to: daemon.sip)
            }
        }

        /// Runs a test with a daemon that uses UDP and TCP, and a PBX. The daemon trusts the PBX by address and port,
        /// because phones have the same address.
        private func withScene(
            _ change: @escaping (inout DaemonSettings, Endpoint) -> Void = { _, _ in },
            _ body: (Scene) async throws -> Void
        ) async throws {
            try await withLoop { loop in
                let places = Places(loop)
                // The test needs a port that is also free for TCP, because some tests reach the PBX over TCP.
                let pbx = try await places.udp("pbx", at: places.freePort())
                let tcp = try await places.freePort()
                let result: Result<Void, any Error>
                do {
                    try await RunningDaemon.with { settings in
                        settings.listen.append(ListenAddress(transport: .tcp, endpoint: tcp))
                        settings.trusted = [.endpoint(pbx)]
                        // With this ring timeout, a call waits one second for a phone that may register again.
                        settings.call.ringTimeout = .seconds(1)
                        change(&settings, pbx)
                    } _: { daemon in
                        try await body(Scene(daemon: daemon, places: places, pbx: pbx, tcp: tcp))
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await places.close()
                try result.get()
            }
        }

        @Test(arguments: ["the PBX", "an inside address", "the daemon", "the daemon over UDP"])
        func `no request goes to the Contact of a phone with a dead connection`(target: String) async throws {
            try await withScene { scene in
                let never = "bystander"
                let contact: Endpoint
                switch target {
                case "the PBX": contact = try await scene.places.tcp(never, at: scene.pbx)
                case "an inside address":
                    // The contact's address differs from the source of the REGISTER, and nobody listens on its port.
                    contact = try await scene.places.tcp(never, at: Endpoint(IPAddress(v4: 0x7f00_0009), 0))
                case "the daemon": contact = scene.tcp
                default: contact = scene.daemon.sip
                }
                try await scene.places.connect("phone", to: scene.tcp)
                await scene.register("phone", contact: "<sip:100@\(contact);transport=tcp>")
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                try await scene.hangUp("phone")
                await scene.ask("INVITE")
                _ = try await scene.places.message("SIP/2.0 100", at: "pbx", never: [never])
                let end = try await scene.places.message("SIP/2.0 ", at: "pbx", never: [never])
                #expect(end.hasPrefix("SIP/2.0 480") || end.hasPrefix("SIP/2.0 500"))
                #expect(await scene.figure(.requestInvite) == 1)
            }
        }

        @Test func `a phone without pushes is called back at its port`() async throws {
            try await withScene { scene in
                let port = try await scene.places.tcp("listening phone").port
                try await scene.places.connect("phone", to: scene.tcp)
                await scene.register("phone", contact: "<sip:100@203.0.113.9:\(port);transport=tcp>")
                _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                try await scene.hangUp("phone")
                await scene.ask("INVITE")
                let invite = try await scene.places.message("INVITE ", at: "listening phone")
                #expect(invite.hasPrefix("INVITE sip:100@203.0.113.9:\(port);transport=tcp SIP/2.0\r\n"))
                #expect(invite.contains("\r\nMax-Breadth: 60\r\n"))
            }
        }

        @Test(arguments: [Transport.udp, .tcp])
        func `six contacts that point at the daemon make no storm`(transport: Transport) async throws {
            try await withScene { scene in
                if transport == .tcp {
                    try await scene.places.connect("phone", to: scene.tcp)
                } else {
                    _ = try await scene.places.udp("phone")
                }
                let own = transport == .tcp ? scene.tcp : scene.daemon.sip
                for number in 1...6 {
                    await scene.register(
                        "phone", number, contact: "<sip:100x\(number)@\(own);transport=\(transport.parameterName)>",
                        transport: transport)
                    _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                }
                #expect(await scene.daemon.bindingCount() == 6)
                if transport == .tcp { try await scene.hangUp("phone") }
                await scene.ask("MESSAGE")
                if transport == .udp {
                    // For each contact, one MESSAGE arrives at the source address of the REGISTER, and gets no answer.
                    for _ in 1...6 { _ = try await scene.places.message("MESSAGE ", at: "phone") }
                } else {
                    let end = try await scene.places.message("SIP/2.0 4", at: "pbx")
                    #expect(end.hasPrefix("SIP/2.0 480"))
                }
                // The only MESSAGE that the daemon has received is the PBX's, so it has sent none to itself.
                #expect(await scene.figure(.requestMessage) == 1)
            }
        }

        @Test func `the Path of a phone is refused, and that of a trusted edge proxy is followed anywhere`()
            async throws
        {
            try await withScene { scene in
                let inner = try await scene.places.udp("inner", at: Endpoint(IPAddress(v4: 0x7f00_0005), 0))
                _ = try await scene.places.udp("phone")
                let path = "<sip:\(inner);lr>"
                await scene.register("phone", contact: "<sip:100@127.0.0.1:9>", path: path, transport: .udp)
                let refusal = try await scene.places.message("SIP/2.0 ", at: "phone")
                #expect(refusal.hasPrefix("SIP/2.0 403") && refusal.contains("\r\nWarning: 399 example.net "))
                #expect(
                    scene.daemon.log.lines.contains {
                        $0.contains("the Path comes from an address that is not trusted")
                    })

                // The PBX plays the edge proxy here, because its address is trusted.
                await scene.register("pbx", 2, contact: "<sip:100@127.0.0.1:9>", path: path, transport: .udp)
                _ = try await scene.places.message("SIP/2.0 200", at: "pbx")
                await scene.ask("INVITE")
                let invite = try await scene.places.message("INVITE ", at: "inner", never: ["phone"])
                #expect(invite.contains("\r\nRoute: \(path)\r\n"))
            }
        }

        @Test func `a sips request is 480 with a Warning`() async throws {
            try await withScene { scene in
                await scene.ask("INVITE", uri: "sips:100@example.net")
                let answer = try await scene.places.message("SIP/2.0 ", at: "pbx")
                #expect(answer.hasPrefix("SIP/2.0 480") && answer.contains("\r\nWarning: 380 example.net \"SIPS"))
            }
        }

        @Test(arguments: [true, false])
        func `a large request goes to the upstream by TCP, or as a datagram if there is no TCP`(
            hasTCP: Bool
        ) async throws {
            try await withScene { settings, pbx in
                settings.upstream = NextHop("sip:\(pbx)")
                settings.upstreamCheck.interval = .zero
            } _: { scene in
                if hasTCP { _ = try await scene.places.tcp("pbx over TCP", at: scene.pbx) }
                let phone = try await scene.places.udp("phone")
                let much = String(repeating: "x", count: 1400)
                await scene.places.send(
                    SIPText.invite(
                        to: "103", from: "100", at: phone, callID: "big", branch: "big", extra: ["Subject: \(much)"]),
                    from: "phone", to: scene.daemon.sip)
                let invite = try await scene.places.message(
                    "INVITE ", at: hasTCP ? "pbx over TCP" : "pbx", never: hasTCP ? ["pbx"] : [])
                #expect(invite.contains("\r\nVia: SIP/2.0/\(hasTCP ? "TCP" : "UDP") 127.0.0.1:"))
                #expect(invite.contains("\r\nSubject: \(much)\r\n"))
            }
        }
    }
}
