/// Finds the few values of a SIP message that the load generator needs, without parsing the message.
package enum ByteSearch {
    /// Returns the number in base 10 or 16 that follows the first `mark`; `nil` without `mark` or without a digit after
    /// it.
    package static func number(after mark: [UInt8], base: UInt64 = 10, in bytes: Span<UInt8>) -> UInt64? {
        guard var index = end(of: mark, in: bytes) else { return nil }
        var number: UInt64?
        while index < bytes.count, let digit = digit(bytes[index]), digit < base {
            number = (number ?? 0) &* base &+ digit
            index += 1
        }
        return number
    }

    private static func end(of mark: [UInt8], in bytes: Span<UInt8>) -> Int? {
        guard let first = mark.first, bytes.count >= mark.count else { return nil }
        for start in 0...(bytes.count - mark.count) where bytes[start] == first {
            if mark.indices.allSatisfy({ bytes[start + $0] == mark[$0] }) { return start + mark.count }
        }
        return nil
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt64(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt64(byte - UInt8(ascii: "a") + 10)
        default: nil
        }
    }
}

/// The kind of a datagram from the daemon, found without parsing.
package enum Arrival: Hashable, Sendable {
    case request
    /// A response: its status, and the number in the branch of its topmost Via.
    case response(status: Int, branch: UInt64)
    case unknown

    package init(_ bytes: Span<UInt8>) {
        guard let status = ByteSearch.number(after: Self.version, in: bytes) else {
            self = bytes.count > 0 ? .request : .unknown
            return
        }
        // A digit follows the SIP version only in a status line.
        guard let branch = ByteSearch.number(after: Self.cookie, base: 16, in: bytes) else {
            self = .unknown
            return
        }
        self = .response(status: Int(truncatingIfNeeded: status), branch: branch)
    }

    private static let version = Array("SIP/2.0 ".utf8)
    private static let cookie = Array("branch=z9hG4bK".utf8)
}
