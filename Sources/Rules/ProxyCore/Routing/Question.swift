import Addressing
import Bytes
import SIPGrammar

/// What an OPTIONS of our own is to find out (RFC 3261 section 11).
enum Question {
    /// Whether a phone is awake. Any answer is a sign of life.
    case phone
    /// Whether the server of the upstream is there.
    case upstream(Endpoint)
    /// Whether we are reached by the name that we tell others.
    case ourselves(Endpoint)
}

/// The OPTIONS itself. It asks for nothing else, so it names nobody but whom it asks and us.
struct QuestionRequest {
    /// The URI as its owner wrote it. A user part that was decoded could hold line ends.
    let target: ByteString
    /// Stands for us in From and Call-ID.
    let host: ByteString
    /// Where we are reached, if whoever is asked may want to know.
    let contact: ByteString?
    /// The value of the topmost Via.
    let via: ByteString
    /// Makes Call-ID and tag; nobody else may have the same.
    let number: UInt64

    var outgoing: OutgoingRequest {
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
