import ProxyPolicy
import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import ProxyCore
import PushDelivery
import PushSandbox
import Reactor
import TestSupport
import Testing

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// Tests a daemon, a PBX, a phone and a push service that have only IPv6.
    @Suite("A call over IPv6", .timeLimit(.minutes(10)))
    struct IPv6DaemonTests {
        private static let loopback = IPAddress(high: 0, low: 1)

        private struct Scene {
            let daemon: RunningDaemon
            let places: Places
            let pbx: Endpoint
            /// The daemon's address for each transport.
            let targets: [Transport: Endpoint]
            /// The TLS context of phones that trust the certificate authority of the daemon.
            let authority: TLSContext

            func register(_ contact: String, over transport: Transport = .udp, from phone: Endpoint) async {
                await places.send(
                    SIPText.register(
                        user: "100", from: phone, transport: transport, callID: "six", cseq: 1, branch: "six",
                        contact: contact), from: "phone", to: targets[transport] ?? daemon.sip)
            }

            func call() async {
                await places.send(
                    SIPText.bytes([
                        "INVITE sip:100@example.net SIP/2.0", "Via: SIP/2.0/UDP \(pbx);rport;branch=z9hG4bKsix",
                        "From: <sip:103@example.net>;tag=m", "To: <sip:100@example.net>", "Call-ID: called",
                        "CSeq: 1 INVITE", "Max-Forwards: 70", "Contact: <sip:103@\(pbx)>",
                    ]), from: "pbx", to: daemon.sip)
            }
        }

        /// Runs a test with a daemon that uses all transports and has a certificate for its address.
        private func withScene(
            _ change: @escaping (inout DaemonSettings) throws -> Void = { _ in }, _ body: (Scene) async throws -> Void
        ) async throws {
            try await withFolder { folder in
                let certificate = try SelfSignedCertificate(hosts: ["::1"])
                let files = (folder.path + "/tls.pem", folder.path + "/tls-key.pem")
                try Data(certificate.certificate).write(to: URL(fileURLWithPath: files.0))
                try Data(certificate.key).write(to: URL(fileURLWithPath: files.1))
                try await withLoop { loop in
                    let places = Places(loop)
                    let pbx = try await places.udp("pbx", at: Endpoint(Self.loopback, 0))
                    var targets: [Transport: Endpoint] = [.udp: Endpoint(Self.loopback, 0)]
                    for transport in [Transport.tcp, .tls, .ws, .wss] {
                        targets[transport] = Endpoint(Self.loopback, try await places.freePort().port)
                    }
                    let listen = [Transport.udp, .tcp, .tls, .ws, .wss].compactMap { transport in
                        targets[transport].map { ListenAddress(transport: transport, endpoint: $0) }
                    }
                    targets[.udp] = nil
                    let reached = targets
                    var changed: Result<Void, any Error> = .success(())
                    try await RunningDaemon.with { settings in
                        settings.listen = listen
                        (settings.tls.certFile, settings.tls.keyFile) = files
                        settings.trusted = [.endpoint(pbx)]
                        do { try change(&settings) } catch { changed = .failure(error) }
                    } _: { daemon in
                        try changed.get()
                        try await body(
                            Scene(
                                daemon: daemon, places: places, pbx: pbx, targets: reached,
                                authority: try TLSContext.client(authority: .bytes(certificate.certificate))))
                    }
                    await places.close()
                }
            }
        }

        /// Makes the 200 to a request, with the phone's address as its Contact.
        private func ok(to request: String, contact: String) -> [UInt8] {
            let copied = request.components(separatedBy: "\r\n").filter { line in
                ["Via:", "Record-Route:", "From:", "To:", "Call-ID:", "CSeq:"].contains { line.hasPrefix($0) }
            }
            let fields = copied.map { $0.hasPrefix("To:") ? $0 + ";tag=phone" : $0 }
            return SIPText.bytes(["SIP/2.0 200 OK"] + fields + ["Contact: \(contact)"])
        }

        @Test(arguments: [Transport.udp, .tcp, .tls, .ws, .wss])
        func `a phone registers, is called and answers`(transport: Transport) async throws {
            try await withScene { scene in
                let places = scene.places
                var phone = Endpoint(Self.loopback, 9)
                let isBrowser = transport == .ws || transport == .wss
                if let target = scene.targets[transport] {
                    let tls = transport == .tls || transport == .wss ? scene.authority : nil
                    try await places.connect("phone", to: target, tls: tls, isBrowser: isBrowser)
                    if isBrowser { _ = try await places.message("HTTP/1.1 101", at: "phone") }
                } else {
                    phone = try await places.udp("phone", at: Endpoint(Self.loopback, 0))
                }
                let contact = "<sip:100@\(phone);transport=\(isBrowser ? "ws" : transport.parameterName)>"
                await scene.register(contact, over: transport, from: phone)
                let answer = try await places.message("SIP/2.0 200", at: "phone")
                #expect(answer.contains("\r\nContact: <sip:100@[::1]:"))
                await scene.call()
                let invite = try await places.message("INVITE ", at: "phone")
                #expect(invite.contains("\r\nVia: SIP/2.0/\(transport.viaName) [::1]:"))
                await places.send(
                    ok(to: invite, contact: contact), from: "phone", to: scene.targets[transport] ?? scene.daemon.sip)
                let final = try await places.message("SIP/2.0 200", at: "pbx")
                #expect(final.contains("Contact: \(contact)"))
            }
        }

        /// The connection to Apple uses HTTP/2, and the stand-in for Google's token service uses HTTP/1.1.
        @Test(arguments: [("apns", "DEF123GHIJ.com.example.phone.voip"), ("fcm", "my-project")])
        func `a push reaches a service at an IPv6 address`(service: String, parameter: String) async throws {
            try await withFolder { folder in
                try await withLoop { loop in
                    let certificate = try SelfSignedCertificate(hosts: ["::1"])
                    let authority = folder.path + "/ca.pem"
                    try Data(certificate.certificate).write(to: URL(fileURLWithPath: authority))
                    let providers = Providers(loop)
                    let url = try await providers.listen(certificate, at: Self.loopback)
                    var push = try folder.settings(url)
                    (push.apns.caFile, push.fcm.caFile) = (authority, authority)
                    let made = push
                    try await withScene { settings in
                        settings.push = made
                    } _: { scene in
                        let phone = try await scene.places.udp("phone", at: Endpoint(Self.loopback, 0))
                        let token = String(repeating: "ab", count: 32)
                        await scene.register(
                            "<sip:100@\(phone);pn-provider=\(service);pn-prid=\(token);pn-param=\(parameter)>",
                            from: phone)
                        _ = try await scene.places.message("SIP/2.0 200", at: "phone")
                        await scene.call()
                        var record = await providers.records.first
                        while record == nil {
                            try Task.checkCancellation()
                            await Task.yield()
                            record = await providers.records.first
                        }
                        #expect(record?.service == service)
                        #expect(record?.isAccepted == true)
                    }
                    await providers.close()
                }
            }
        }

        @Test func `the answer to a STUN keep-alive has the sender's address`() async throws {
            try await withScene { scene in
                let loop = scene.daemon.loop
                let answers = Mailbox<[UInt8]>()
                let transaction = [UInt8](1...12)
                let socket = try await Bench(loop).run { _ in
                    let socket = try UDPSocket(boundTo: Endpoint(Self.loopback, 0), on: loop)
                    try socket.receive { batch in
                        for index in 0..<batch.count {
                            answers.put(batch.withBytes(at: index) { bytes in bytes.indices.map { bytes[$0] } })
                        }
                    }
                    socket.queue([0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42] + transaction, to: scene.daemon.sip)
                    return socket
                }
                let answer = try await answers.next()
                let port = socket.local.port ^ 0x2112
                let mask = [0x21, 0x12, 0xa4, 0x42] + transaction
                let address = zip([UInt8](repeating: 0, count: 15) + [1], mask).map { $0 ^ $1 }
                #expect(Array(answer.prefix(20)) == [1, 1, 0, 24] + mask)
                #expect(
                    Array(answer.dropFirst(20)) == [0, 0x20, 0, 20, 0, 2, UInt8(port >> 8), UInt8(port & 0xff)]
                        + address)
                await Bench(loop).run { _ in socket.close() }
            }
        }
    }
}
