package import Addressing

/// The header of the PROXY protocol, versions 1 and 2. A load balancer sends the header first on a connection, to name
/// the real peer.
///
/// Only load balancers in the settings may send a PROXY header, because a sender can claim any address. The load
/// balancers in the settings must always send a PROXY header.
package enum ProxyHeader: Hashable, Sendable {
    /// The bytes are the beginning of a PROXY header, and more bytes are needed.
    case incomplete
    /// The bytes are no PROXY header, or a malformed PROXY header.
    case invalid
    /// A complete PROXY header and its length in bytes. If a PROXY header has no source, the load balancer connected
    /// for itself, for example for a health check.
    case header(length: Int, source: Endpoint?)

    /// The maximum accepted length of a PROXY header, in bytes. Version 2 allows longer headers, but their additional
    /// fields are not used here.
    package static let longest = 536

    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]
    private static let word = Array("PROXY ".utf8)

    /// Reads the PROXY header at the beginning of the bytes.
    package init(_ bytes: Span<UInt8>) {
        if Self.begins(bytes, Self.signature) {
            self = bytes.count < 16 ? .incomplete : Self.binary(bytes)
        } else if Self.begins(bytes, Self.word) {
            self = Self.text(bytes)
        } else {
            self = .invalid
        }
    }

    /// Whether the bytes begin with the signature `mark`, or are a part of the signature.
    private static func begins(_ bytes: Span<UInt8>, _ mark: [UInt8]) -> Bool {
        for index in 0..<min(bytes.count, mark.count) where bytes[index] != mark[index] { return false }
        return true
    }

    // MARK: Version 2

    private static func binary(_ bytes: Span<UInt8>) -> ProxyHeader {
        let length = 16 + Int(bytes[14]) << 8 + Int(bytes[15])
        guard bytes[12] >> 4 == 2, length <= longest else { return .invalid }
        guard bytes.count >= length else { return .incomplete }
        switch (bytes[12] & 15, bytes[13]) {
        case (0, _): return .header(length: length, source: nil)
        case (1, 0x11):
            guard length >= 28 else { return .invalid }
            let address = IPAddress(v4: UInt32(truncatingIfNeeded: number(bytes, 16, 4)))
            return .header(length: length, source: Endpoint(address, UInt16(truncatingIfNeeded: number(bytes, 24, 2))))
        case (1, 0x21):
            guard length >= 52 else { return .invalid }
            let address = IPAddress(high: number(bytes, 16, 8), low: number(bytes, 24, 8))
            return .header(length: length, source: Endpoint(address, UInt16(truncatingIfNeeded: number(bytes, 48, 2))))
        // If a PROXY header has no endpoints, the load balancer itself is the peer.
        case (1, _): return .header(length: length, source: nil)
        default: return .invalid
        }
    }

    private static func number(_ bytes: Span<UInt8>, _ start: Int, _ count: Int) -> UInt64 {
        var number: UInt64 = 0
        for index in start..<start + count { number = number << 8 | UInt64(bytes[index]) }
        return number
    }

    // MARK: Version 1

    /// The maximum length in bytes of a header of version 1, according to the specification.
    private static let longestLine = 107

    private static func text(_ bytes: Span<UInt8>) -> ProxyHeader {
        var end = word.count
        while end < bytes.count, bytes[end] != 10 { end += 1 }
        guard end < min(bytes.count, longestLine) else { return bytes.count >= longestLine ? .invalid : .incomplete }
        guard bytes[end - 1] == 13 else { return .invalid }
        var parts: [(start: Int, end: Int)] = []
        var start = word.count
        for index in word.count..<end where bytes[index] == 32 || index == end - 1 {
            parts.append((start, index))
            start = index + 1
        }
        let length = end + 1
        if let family = parts.first, family.end - family.start == 7,
            begins(bytes.extracting(family.start..<family.end), unknown)
        {
            return .header(length: length, source: nil)
        }
        guard parts.count == 5, parts[0].end - parts[0].start == 4,
            begins(bytes.extracting(parts[0].start..<parts[0].end - 1), tcp),
            let address = IPAddress(ascii: bytes.extracting(parts[1].start..<parts[1].end)),
            address.isV4 == (bytes[parts[0].end - 1] == 52), let port = port(bytes, parts[3])
        else { return .invalid }
        return .header(length: length, source: Endpoint(address, port))
    }

    private static let unknown = Array("UNKNOWN".utf8)
    private static let tcp = Array("TCP".utf8)

    private static func port(_ bytes: Span<UInt8>, _ place: (start: Int, end: Int)) -> UInt16? {
        guard (1...5).contains(place.end - place.start) else { return nil }
        var port: UInt32 = 0
        for index in place.start..<place.end {
            guard 48...57 ~= bytes[index] else { return nil }
            port = port * 10 + UInt32(bytes[index] - 48)
        }
        return UInt16(exactly: port)
    }
}
