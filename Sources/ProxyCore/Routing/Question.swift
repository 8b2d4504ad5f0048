import Bytes
import SIPGrammar

/// An OPTIONS that asks an open connection whether its phone is awake (RFC 3261 section 11): any answer is a sign of life.
///
/// It asks for nothing else, so it names the phone's contact and our domain, and no caller.
struct PhoneQuestion {
    /// The contact's URI as the phone wrote it. A user part that was decoded could hold line ends.
    let contact: ByteString
    let domain: ByteString
    /// The value of the topmost Via.
    let via: ByteString
    /// Makes Call-ID and tag; nobody else may have the same.
    let number: UInt64

    var bytes: [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(400)
        out.append("OPTIONS ")
        out.append(contact)
        out.append(" SIP/2.0\r\nVia: ")
        out.append(via)
        out.append("\r\nMax-Forwards: 70\r\nFrom: <sip:")
        out.append(domain)
        out.append(">;tag=")
        out.append(decimal: number)
        out.append("\r\nTo: <")
        out.append(contact)
        out.append(">\r\nCall-ID: ")
        out.append(decimal: number)
        out.append("@")
        out.append(domain)
        out.append("\r\nCSeq: 1 OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n")
        return out
    }
}
