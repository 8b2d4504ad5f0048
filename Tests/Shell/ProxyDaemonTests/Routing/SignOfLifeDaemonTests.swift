import ProxyPolicy
import Addressing
import LoopTesting
import ProxyCore
import PushDelivery
import Reactor
import Settings
import TestSupport
import Testing

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// Tests the rule T22.1 of docs/Trust.md over the network: packets that an awake phone sends in place of a
    /// REGISTER.
    @Suite("Signs of life", .timeLimit(.minutes(10)))
    struct SignOfLifeDaemonTests {
        private struct Scene {
            let daemon: RunningDaemon
            let places: Places
            let pbx: Endpoint
            let tcp: Endpoint
            let transport: Transport

            func send(_ bytes: [UInt8], from name: String = "phone") async {
                await places.send(bytes, from: name, to: transport == .tcp ? tcp : daemon.sip)
            }

            func call() async throws {
                await places.send(
                    SIPText.invite(to: "100", from: "103", at: pbx, callID: "call", branch: "call"), from: "pbx",
                    to: daemon.sip)
                _ = try await places.message("SIP/2.0 100", at: "pbx", never: ["phone"])
                // The provider receives the push before the phone receives anything.
                _ = try await places.message("POST /wake/token ", at: "provider", never: ["phone"])
            }
        }

        /// Runs a test with a daemon, a trusted PBX, a provider that never answers, and a registered phone.
        private func withScene(_ transport: Transport, _ body: (Scene) async throws -> Void) async throws {
            try await withLoop { loop in
                let places = Places(loop)
                let pbx = try await places.udp("pbx")
                let provider = try await places.tcp("provider")
                let tcp = try await places.freePort()
                let push = try PushSettings(
                    yaml: Array(
                        """
                        http:
                          enabled: true
                          apps:
                            app:
                              url: http://\(provider)/wake/{{token}}
                              body: '{"type": "{{type}}"}'
                        """.utf8), file: "push.yaml")
                let result: Result<Void, any Error>
                do {
                    try await RunningDaemon.with { settings in
                        settings.listen.append(ListenAddress(transport: .tcp, endpoint: tcp))
                        settings.trusted = [.endpoint(pbx)]
                        settings.push = push
                        // Only the phone's own packets count, because the daemon of this test sends no OPTIONS.
                        settings.call.asksConnections = false
                    } _: { daemon in
                        let scene = Scene(
                            daemon: daemon, places: places, pbx: pbx, tcp: tcp, transport: transport)
                        for name in ["phone", "neighbour"] {
                            if transport == .tcp {
                                try await places.connect(name, to: tcp)
                            } else {
                                _ = try await places.udp(name)
                            }
                        }
                        await scene.send(
                            SIPText.register(
                                user: "100", from: Endpoint(.loopbackV4, 9), transport: transport, callID: "reg",
                                cseq: 1, branch: "reg",
                                contact: "<sip:100@127.0.0.1:9;pn-provider=http;pn-param=app;pn-prid=token>"))
                        _ = try await places.message("SIP/2.0 200", at: "phone")
                        try await body(scene)
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await places.close()
                try result.get()
            }
        }

        /// Expects that the daemon sends the held INVITE once after the phone's sign of life, and never after the same
        /// packet from a neighbour.
        private func showsLife(_ transport: Transport, _ sign: [UInt8]) async throws {
            try await withScene(transport) { scene in
                try await scene.call()
                await scene.send(sign, from: "neighbour")
                // When the daemon has answered the neighbour's OPTIONS, it has handled the neighbour's sign of life.
                await scene.send(Self.options("neighbour"), from: "neighbour")
                _ = try await scene.places.text(until: "\r\nCall-ID: oneighbour\r\n", at: "neighbour", never: ["phone"])
                await scene.send(sign)
                // The test sends OPTIONS only after the INVITE, because any request of the phone makes the daemon send
                // a held INVITE.
                let first = try await scene.places.text(until: "\r\nCall-ID: call\r\n", at: "phone")
                await scene.send(sign)
                await scene.send(Self.options("phone"))
                let rest = try await scene.places.text(until: "\r\nCall-ID: ophone\r\n", at: "phone")
                #expect(Self.branches(first + rest).count == 1)
            }
        }

        /// The branches of all INVITEs in the text. Over UDP, one INVITE may arrive several times.
        private static func branches(_ text: String) -> Set<Substring> {
            Set(
                text.split(separator: "INVITE sip:").filter {
                    $0.contains("CSeq: 1 INVITE") && !$0.hasPrefix("SIP/2.0")
                }
                .compactMap { $0.split(separator: "branch=", maxSplits: 1).last?.prefix { $0 != ";" && $0 != "\r" } })
        }

        private static func options(_ id: String) -> [UInt8] {
            SIPText.bytes([
                "OPTIONS sip:example.net SIP/2.0", "Via: SIP/2.0/UDP 127.0.0.1:9;rport;branch=z9hG4bKo\(id)",
                "From: <sip:100@example.net>;tag=o", "To: <sip:example.net>", "Call-ID: o\(id)", "CSeq: 1 OPTIONS",
                "Max-Forwards: 70",
            ])
        }

        /// A STUN Binding request (RFC 5389).
        private static let stun: [UInt8] = [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42] + Array("abcdefghijkl".utf8)

        @Test(arguments: [Array("\r\n\r\n".utf8), Array("\r\n".utf8), [], [0], [0, 0, 0, 0], stun])
        func `a datagram that keeps a way open is one`(datagram: [UInt8]) async throws {
            try await showsLife(.udp, datagram)
        }

        @Test(arguments: ["\r\n\r\n", "\r\n"])
        func `line ends on a connection are one`(lineEnds: String) async throws {
            try await showsLife(.tcp, Array(lineEnds.utf8))
        }

        @Test(arguments: [Transport.udp, .tcp])
        func `a request is one`(transport: Transport) async throws {
            try await withScene(transport) { scene in
                try await scene.call()
                await scene.send(Self.options("phone"))
                _ = try await scene.places.text(until: "\r\nCall-ID: call\r\n", at: "phone")
            }
        }

        @Test(arguments: [Transport.udp, .tcp])
        func `half a message is no sign of life`(transport: Transport) async throws {
            try await withScene(transport) { scene in
                try await scene.call()
                await scene.send(Array("OPTIONS sip:example.net SIP/2.0\r\n".utf8))
                await scene.send(Self.options("neighbour"), from: "neighbour")
                _ = try await scene.places.text(until: "\r\nCall-ID: oneighbour\r\n", at: "neighbour", never: ["phone"])
            }
        }
    }
}
