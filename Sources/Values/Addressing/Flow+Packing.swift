/// Encodes SIP flows in few bytes, nine for UDP over IPv4, for tables with very many flows.
extension Flow {
    private enum Form {
        static let transport: UInt8 = 7
        static let isV6: UInt8 = 8
        /// The bit of a packed flow's first byte that is set if a connection number follows.
        static let hasConnection: UInt8 = 16
    }

    private var form: UInt8 {
        transport.rawValue | (remote.address.isV4 ? 0 : Form.isV6) | (connection == 0 ? 0 : Form.hasConnection)
    }

    package func pack(into bytes: inout [UInt8]) {
        bytes.append(form)
        bytes.append(UInt64(listener), bytes: 2)
        bytes.append(UInt64(remote.port), bytes: 2)
        if remote.address.isV4 {
            bytes.append(UInt64(remote.address.v4Bits), bytes: 4)
        } else {
            bytes.append(remote.address.high, bytes: 8)
            bytes.append(remote.address.low, bytes: 8)
        }
        if connection != 0 { bytes.append(connection, bytes: 8) }
    }

    /// Reads a flow that ``pack(into:)`` wrote at `index`, and moves `index` behind it; `nil` for other bytes.
    package init?(packed bytes: Span<UInt8>, from index: inout Int) {
        guard index < bytes.count else { return nil }
        let form = bytes[index]
        index += 1
        guard let transport = Transport(rawValue: form & Form.transport),
            let listener = bytes.number(of: 2, from: &index), let port = bytes.number(of: 2, from: &index)
        else { return nil }
        let address: IPAddress
        if form & Form.isV6 == 0 {
            guard let bits = bytes.number(of: 4, from: &index) else { return nil }
            address = IPAddress(v4: UInt32(truncatingIfNeeded: bits))
        } else {
            guard let high = bytes.number(of: 8, from: &index), let low = bytes.number(of: 8, from: &index) else {
                return nil
            }
            address = IPAddress(high: high, low: low)
        }
        var connection: UInt64 = 0
        if form & Form.hasConnection != 0 { connection = bytes.number(of: 8, from: &index) ?? 0 }
        self.init(
            transport: transport, listener: UInt16(truncatingIfNeeded: listener), connection: connection,
            remote: Endpoint(address, UInt16(truncatingIfNeeded: port)))
    }
}

extension [UInt8] {
    /// Appends the lowest `count` bytes of an integer, lowest byte first (little-endian).
    fileprivate mutating func append(_ number: UInt64, bytes count: Int) {
        for place in 0..<count { append(UInt8(truncatingIfNeeded: number >> UInt64(8 * place))) }
    }
}

extension Span<UInt8> {
    // Inlining gives fast code for each value of `count`.
    @inline(__always)
    fileprivate func number(of bytes: Int, from index: inout Int) -> UInt64? {
        guard index + bytes <= count else { return nil }
        var number: UInt64 = 0
        for place in 0..<bytes { number |= UInt64(self[index + place]) << UInt64(8 * place) }
        index += bytes
        return number
    }
}
