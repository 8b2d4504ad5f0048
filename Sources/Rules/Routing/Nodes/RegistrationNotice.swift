package import Bytes
package import ProxyPolicy
package import Registration
package import SIPGrammar

/// A NOTIFY of the registration event package (RFC 3680), by which a node tells another node that a phone of a user has
/// registered.
///
/// The other node sends no SUBSCRIBE: it has written into the store that something waits for the user's phones.
package struct RegistrationNotice {
    private let aor: AddressOfRecord
    private let peer: PeerNode
    private let own: OwnNode
    private let via: ByteString
    private let number: UInt64

    /// - Parameters:
    ///   - aor: the user whose phone has registered.
    ///   - peer: the node that gets the NOTIFY.
    ///   - own: the node that sends the NOTIFY.
    ///   - via: the value of the topmost Via.
    ///   - number: a random number for the Call-ID and the From tag, different for each NOTIFY.
    package init(of aor: AddressOfRecord, to peer: PeerNode, from own: OwnNode, via: ByteString, number: UInt64) {
        (self.aor, self.peer, self.own, self.via, self.number) = (aor, peer, own, via, number)
    }

    package var outgoing: OutgoingRequest {
        OutgoingRequest(
            bytes: bytes, method: .notify, cseqNumber: 1, requestURI: 0..<0, viaRow: 0..<0, fromRow: 0..<0,
            toRow: 0..<0, callIDRow: 0..<0, routeRows: [])
    }

    private var bytes: [UInt8] {
        let uri = ByteString(capacity: aor.user.count + aor.host.count + 16) { out in
            out.append("sip:")
            out.append(user: aor.user)
            out.append("@")
            out.append(aor.host)
        }
        let body = Self.body(uri)
        return [UInt8](capacity: 1024) { out in
            out.append("NOTIFY sip:")
            out.append(peer.place)
            out.append(";transport=tls SIP/2.0\r\nVia: ")
            out.append(via)
            out.append("\r\nMax-Forwards: 70\r\nFrom: <sip:")
            out.append(own.place)
            out.append(">;tag=")
            out.append(decimal: number)
            out.append("\r\nTo: <")
            out.append(uri)
            out.append(">\r\nCall-ID: ")
            out.append(decimal: number)
            out.append("@")
            out.append(own.place)
            out.append("\r\nCSeq: 1 NOTIFY\r\nContact: <sip:")
            out.append(own.place)
            out.append(";transport=tls>\r\nEvent: reg\r\nSubscription-State: active\r\n")
            out.append("Content-Type: application/reginfo+xml\r\nContent-Length: ")
            out.append(decimal: UInt64(body.count))
            out.append("\r\n\r\n")
            out.append(body.span)
        }
    }

    /// The document of RFC 3680 section 5. The document has no contacts, because the other node reads the contacts from
    /// the store.
    private static func body(_ uri: ByteString) -> [UInt8] {
        [UInt8](capacity: 256) { out in
            out.append("<?xml version=\"1.0\"?>\r\n<reginfo xmlns=\"urn:ietf:params:xml:ns:reginfo\" version=\"0\"")
            out.append(" state=\"partial\"><registration aor=\"")
            for index in 0..<uri.count {
                switch uri[index] {
                case UInt8(ascii: "&"): out.append("&amp;")
                case UInt8(ascii: "<"): out.append("&lt;")
                case UInt8(ascii: "\""): out.append("&quot;")
                default: out.append(uri[index])
                }
            }
            out.append("\" id=\"a\" state=\"active\"/></reginfo>\r\n")
        }
    }
}
