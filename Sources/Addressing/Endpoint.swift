/// An address and a port.
package struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    package let address: IPAddress
    package let port: UInt16

    package init(_ address: IPAddress, _ port: UInt16) {
        self.address = address
        self.port = port
    }

    /// Reads `1.2.3.4:5060` or `[2001:db8::1]:5060`.
    package init?(_ text: some StringProtocol) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            let address = IPAddress(text[..<colon])
        else { return nil }
        // "::1:5060" would be ambiguous: IPv6 with a port needs its brackets.
        guard address.isV4 || text.hasPrefix("[") else { return nil }
        self.init(address, port)
    }

    package var description: String { "\(address.uriHost):\(port)" }
}
