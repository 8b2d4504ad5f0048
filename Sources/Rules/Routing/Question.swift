package import Addressing
package import Bytes
package import SIPGrammar

/// The question that an OPTIONS of the daemon itself answers (RFC 3261 section 11).
package enum Question {
    /// Whether a phone is awake. Any answer is a sign of life.
    case phone
    /// Whether the upstream's server at this endpoint answers.
    case upstream(Endpoint)
    /// Whether our advertised name leads to this daemon.
    case ourselves(Endpoint)
}

/// The text of such an OPTIONS. The request names only the receiver and this daemon.
package struct QuestionRequest {
    /// The receiver's URI in its original, escaped form. A decoded user part could contain line ends.
    package let target: ByteString
    /// The daemon's host in From and Call-ID.
    package let host: ByteString
    /// The daemon's host and port for Contact. `nil` leaves Contact out.
    package let contact: ByteString?
    /// The value of the topmost Via.
    package let via: ByteString
    /// A random number for the Call-ID and the From tag. No other request may have the same number.
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
