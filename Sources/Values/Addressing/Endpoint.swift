/// An IP address with a UDP or TCP port.
package struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    package let address: IPAddress
    package let port: UInt16

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: Endpoint, right: Endpoint) -> Bool {
        left.port == right.port && left.address == right.address
    }

    package init(_ address: IPAddress, _ port: UInt16) {
        self.address = address
        self.port = port
    }

    /// Reads an endpoint from text such as `1.2.3.4:5060` or `[2001:db8::1]:5060`.
    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        self.init(ascii: bytes.span)
    }

    package init?(ascii: Span<UInt8>) {
        var colon = ascii.count - 1
        while colon > 0, ascii[colon] != UInt8(ascii: ":") { colon -= 1 }
        guard colon > 0, colon + 1 < ascii.count else { return nil }
        var port: UInt32 = 0
        for index in colon + 1..<ascii.count {
            let digit = ascii[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            port = port * 10 + UInt32(digit)
            guard port <= UInt16.max else { return nil }
        }
        guard let address = IPAddress(ascii: ascii.extracting(0..<colon)) else { return nil }
        // `::1:5060` would be ambiguous, so an IPv6 address with a port needs brackets.
        guard address.isV4 || ascii[0] == UInt8(ascii: "[") else { return nil }
        self.init(address, UInt16(truncatingIfNeeded: port))
    }

    package var description: String { "\(address.uriHost):\(port)" }

    /// Whether a message from `source` can come from the server at the endpoint. A server can send from any port, so
    /// the ports need not be equal. If phones have the same address as the server, `hasOnePort` is true, and the ports
    /// must be equal.
    package func speaks(as source: Endpoint, hasOnePort: @autoclosure () -> Bool) -> Bool {
        guard address == source.address else { return false }
        return self == source || !hasOnePort()
    }
}
