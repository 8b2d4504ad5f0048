package import Addressing
import Bytes
package import SIPGrammar
import SIPMessage

/// Writes SIP requests as phones and PBXs send them, for tests.
package enum SIPText {
    package static func register(
        user: String, domain: String = "example.net", from source: Endpoint, transport: Transport = .udp,
        callID: String, cseq: Int, branch: String, contact: String, expires: Int? = 3600, extra: [String] = []
    ) -> [UInt8] {
        var rows = [
            "REGISTER sip:\(domain) SIP/2.0",
            "Via: SIP/2.0/\(transport.viaName) \(source);rport;branch=z9hG4bK\(branch)",
            "From: <sip:\(user)@\(domain)>;tag=r\(callID)",
            "To: <sip:\(user)@\(domain)>",
            "Call-ID: \(callID)",
            "CSeq: \(cseq) REGISTER",
            "Max-Forwards: 70",
            "Contact: \(contact)",
        ]
        if let expires { rows.append("Expires: \(expires)") }
        return bytes(rows + extra)
    }

    package static func invite(
        to user: String, domain: String = "example.net", from caller: String, at source: Endpoint, callID: String,
        branch: String, extra: [String] = []
    ) -> [UInt8] {
        let body = "v=0\r\no=- 1 1 IN IP4 \(source.address)\r\ns=-\r\n"
        let rows = [
            "INVITE sip:\(user)@\(domain) SIP/2.0",
            "Via: SIP/2.0/UDP \(source);rport;branch=z9hG4bK\(branch)",
            "From: \"Caller \(caller)\" <sip:\(caller)@\(domain)>;tag=f\(callID)",
            "To: <sip:\(user)@\(domain)>",
            "Call-ID: \(callID)",
            "CSeq: 1 INVITE",
            "Max-Forwards: 70",
            "Contact: <sip:\(caller)@\(source)>",
            "Content-Type: application/sdp",
        ]
        return bytes(rows + extra, body: body)
    }

    /// Makes a CANCEL or the ACK to a failure, with the branch and the CSeq number of the INVITE.
    package static func hopRequest(_ method: String, for invite: SIPRequest, to: String? = nil, extra: [String] = [])
        -> [UInt8]
    {
        let to = to ?? invite.frame.firstValue(of: .to)?.string ?? ""
        return bytes(
            [
                "\(method) \(invite.uri.text) SIP/2.0",
                "Via: \(invite.frame.firstValue(of: .via)?.string ?? "")",
                "From: \(invite.frame.firstValue(of: .from)?.string ?? "")",
                "To: \(to)",
                "Call-ID: \(invite.callID)",
                "CSeq: \(invite.cseq.number) \(method)",
                "Max-Forwards: 70",
            ] + extra)
    }

    /// Builds a request inside a dialog, along the recorded route set.
    package static func dialogRequest(
        _ method: String, cseq: Int, invite: SIPRequest, answer: SIPResponse, at source: Endpoint, branch: String
    ) -> [UInt8] {
        let routes = answer.frame.values(of: .recordRoute).reversed().map { "Route: \($0)" }
        let contact = answer.frame.firstValue(of: .contact)?.string ?? "<sip:lost@invalid>"
        let target = contact.split(separator: ">").first?.split(separator: "<").last.map(String.init) ?? contact
        return bytes(
            [
                "\(method) \(target) SIP/2.0",
                "Via: SIP/2.0/UDP \(source);rport;branch=z9hG4bK\(branch)",
                "From: \(invite.frame.firstValue(of: .from)?.string ?? "")",
                "To: \(answer.frame.firstValue(of: .to)?.string ?? "")",
                "Call-ID: \(invite.callID)",
                "CSeq: \(cseq) \(method)",
                "Max-Forwards: 70",
            ] + routes)
    }

    /// Makes the response of a device that received `request`.
    package static func response(
        _ status: Status, to request: SIPRequest, tag: String, contact: String? = nil, extra: [String] = []
    ) -> [UInt8] {
        var rows = ["SIP/2.0 \(status.code) \(status.reasonPhrase)"]
        rows += request.frame.values(of: .via).map { "Via: \($0)" }
        rows += request.frame.values(of: .recordRoute).map { "Record-Route: \($0)" }
        let to = request.frame.firstValue(of: .to)?.string ?? ""
        rows += [
            "From: \(request.frame.firstValue(of: .from)?.string ?? "")",
            "To: \(request.to.tag == nil && status != .trying ? "\(to);tag=\(tag)" : to)",
            "Call-ID: \(request.callID)",
            "CSeq: \(request.frame.firstValue(of: .cseq)?.string ?? "")",
        ]
        if let contact { rows.append("Contact: <\(contact)>") }
        return bytes(rows + extra)
    }

    /// Reads a request as the daemon does; `nil` if it is invalid.
    package static func readRequest(_ bytes: [UInt8]) -> SIPRequest? {
        guard case .request(let request) = MessageReader().read(bytes.span, isStream: false) else { return nil }
        return request
    }

    package static func readResponse(_ bytes: [UInt8]) -> SIPResponse? {
        guard case .response(let response) = MessageReader().read(bytes.span, isStream: false) else { return nil }
        return response
    }

    package static func bytes(_ rows: [String], body: String = "") -> [UInt8] {
        let head = rows.joined(separator: "\r\n")
        return Array("\(head)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
    }
}
