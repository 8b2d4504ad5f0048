import Addressing
import Foundation
import LoopTesting
import ProxyCore
import TestSupport
import Testing

@testable import ProxyDaemon

extension RunningDaemonSuites {
    /// A daemon, a PBX and a phone that have IPv6 alone.
    @Suite("A call over IPv6", .timeLimit(.minutes(2)))
    struct IPv6DaemonTests {
        private static let loopback = IPAddress(high: 0, low: 1)

        /// What answers a request: its own fields, and where the phone is.
        private func ok(to request: String, contact: String) -> [UInt8] {
            let copied = request.components(separatedBy: "\r\n").filter { line in
                ["Via:", "Record-Route:", "From:", "To:", "Call-ID:", "CSeq:"].contains { line.hasPrefix($0) }
            }
            let fields = copied.map { $0.hasPrefix("To:") ? $0 + ";tag=phone" : $0 }
            return SIPText.bytes(["SIP/2.0 200 OK"] + fields + ["Contact: \(contact)"])
        }

        @Test(arguments: [Transport.udp, .tcp])
        func `a phone registers, is called and answers`(transport: Transport) async throws {
            try await withLoop { loop in
                let places = Places(loop)
                let pbx = try await places.udp("pbx", at: Endpoint(Self.loopback, 0))
                let tcp = Endpoint(Self.loopback, try await places.freePort().port)
                try await RunningDaemon.with { settings in
                    settings.listen = [
                        ListenAddress(transport: .udp, endpoint: Endpoint(Self.loopback, 0)),
                        ListenAddress(transport: .tcp, endpoint: tcp),
                    ]
                    settings.trusted = [.endpoint(pbx)]
                } _: { daemon in
                    let target = transport == .tcp ? tcp : daemon.sip
                    var phone = Endpoint(Self.loopback, 9)
                    if transport == .tcp {
                        try await places.connect("phone", to: tcp)
                    } else {
                        phone = try await places.udp("phone", at: Endpoint(Self.loopback, 0))
                    }
                    let contact = "<sip:100@\(phone);transport=\(transport.parameterName)>"
                    await places.send(
                        SIPText.register(
                            user: "100", from: phone, transport: transport, callID: "six", cseq: 1, branch: "six",
                            contact: contact), from: "phone", to: target)
                    let answer = try await places.message("SIP/2.0 200", at: "phone")
                    #expect(answer.contains("\r\nContact: <sip:100@[::1]:"))
                    await places.send(
                        SIPText.bytes([
                            "INVITE sip:100@example.net SIP/2.0", "Via: SIP/2.0/UDP \(pbx);rport;branch=z9hG4bKsix",
                            "From: <sip:103@example.net>;tag=m", "To: <sip:100@example.net>", "Call-ID: called",
                            "CSeq: 1 INVITE", "Max-Forwards: 70", "Contact: <sip:103@\(pbx)>",
                        ]), from: "pbx", to: daemon.sip)
                    let invite = try await places.message("INVITE ", at: "phone")
                    #expect(invite.contains("\r\nVia: SIP/2.0/\(transport == .tcp ? "TCP" : "UDP") [::1]:"))
                    await places.send(ok(to: invite, contact: contact), from: "phone", to: target)
                    let final = try await places.message("SIP/2.0 200", at: "pbx")
                    #expect(final.contains("Contact: \(contact)"))
                }
                await places.close()
            }
        }
    }
}
