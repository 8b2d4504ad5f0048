package import Addressing
package import Bytes
package import SIPGrammar

/// The purpose of an OPTIONS or NOTIFY that this daemon itself sends (RFC 3261 section 11, RFC 3680).
package enum Question {
    /// The OPTIONS asks a phone whether it is awake; any response shows that it is awake.
    case phone
    /// The OPTIONS asks the upstream server at the given endpoint whether it is up.
    case upstream(Endpoint)
    /// The OPTIONS asks the PBX server at the endpoint whether it is up; the number is the PBX's index in
    /// `ProxySettings.upstreamRegistrations`.
    case pbx(Int, Endpoint)
    /// The OPTIONS tests whether an address of the daemon's advertised host name leads to this daemon.
    case ourselves(Endpoint)
    /// A NOTIFY tells another node that a phone has registered here.
    case node
}

/// The content of an OPTIONS that this daemon itself sends; the OPTIONS names only the receiver and this daemon.
package struct QuestionRequest {
    /// The receiver's URI in its escaped form, because an unescaped user part could contain line ends.
    package let target: ByteString
    /// The daemon's host in the From and Call-ID of the OPTIONS.
    package let host: ByteString
    /// The daemon's host and port in the Contact of the OPTIONS; `nil` if the OPTIONS has no Contact.
    package let contact: ByteString?
    /// The value of the OPTIONS request's topmost Via.
    package let via: ByteString
    /// A random number for the Call-ID and the From tag, different for each OPTIONS.
    package let number: UInt64

    package init(target: ByteString, host: ByteString, contact: ByteString?, via: ByteString, number: UInt64) {
        self.target = target
        self.host = host
        self.contact = contact
        self.via = via
        self.number = number
    }

    package var outgoing: OutgoingRequest {
        OutgoingRequest(
            bytes: bytes, method: .options, cseqNumber: 1, requestURI: 0..<0, viaRow: 0..<0, fromRow: 0..<0,
            toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
    }

    private var bytes: [UInt8] {
        [UInt8](capacity: 512) { out in
            out.append("OPTIONS ")
            out.append(target)
            out.append(" SIP/2.0\r\nVia: ")
            out.append(via)
            out.append("\r\nMax-Forwards: 70\r\nFrom: <sip:")
            out.append(host)
            out.append(">;tag=")
            out.append(decimal: number)
            out.append("\r\nTo: <")
            out.append(target)
            out.append(">\r\nCall-ID: ")
            out.append(decimal: number)
            out.append("@")
            out.append(host)
            out.append("\r\nCSeq: 1 OPTIONS\r\n")
            if let contact {
                out.append("Contact: <sip:")
                out.append(contact)
                out.append(">\r\n")
            }
            out.append("Accept: application/sdp\r\nContent-Length: 0\r\n\r\n")
        }
    }
}
