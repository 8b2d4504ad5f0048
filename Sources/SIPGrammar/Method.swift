package import Bytes

/// A request method; unknown ones keep their name (RFC 3261 section 7.1: case-sensitive).
package enum Method: Hashable, Sendable {
    case invite, ack, bye, cancel, register, options, prack, update, info, refer, message, subscribe, notify, publish
    case other(ByteString)

    /// The known methods with their names, for reading and for writing.
    private static let names: [(Method, StaticString)] = [
        (.invite, "INVITE"), (.ack, "ACK"), (.bye, "BYE"), (.cancel, "CANCEL"), (.register, "REGISTER"),
        (.options, "OPTIONS"), (.prack, "PRACK"), (.update, "UPDATE"), (.info, "INFO"), (.refer, "REFER"),
        (.message, "MESSAGE"), (.subscribe, "SUBSCRIBE"), (.notify, "NOTIFY"), (.publish, "PUBLISH"),
    ]

    package init(_ name: ByteString) {
        for (method, text) in Self.names where name == text {
            self = method
            return
        }
        self = .other(name)
    }

    /// Appends the name as it stands in a start line or CSeq.
    package func append(to out: inout [UInt8]) {
        if case .other(let name) = self {
            out.append(name)
            return
        }
        for (method, text) in Self.names where method == self {
            out.append(text)
            return
        }
    }
}

/// The CSeq header field: number below 2^31 (RFC 3261 section 8.1.1.5).
package struct CSeq: Hashable, Sendable {
    package let number: UInt32
    package let method: Method

    package init(number: UInt32, method: Method) {
        self.number = number
        self.method = method
    }
}
