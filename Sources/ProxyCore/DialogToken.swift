package import Addressing
package import Registration
package import SIPGrammar

/// One end of a dialog as this proxy reaches it.
package struct DialogSide: Hashable, Sendable {
    /// Where the dialog-forming request came from, or was sent to.
    package let flow: Flow
    /// The binding the flow belonged to, so that a phone that moved during the call is still found; 0 for a peer.
    package let binding: BindingID?

    package init(flow: Flow, binding: BindingID?) {
        self.flow = flow
        self.binding = binding
    }
}

/// What our Record-Route URI says in its user part: both ends of the dialog, sealed (RFC 5626 section 5.2, T20).
///
/// Requests inside the dialog come back with it in Route, so the proxy needs no memory of the call: the end the request
/// did not come from is where it goes. The seal keeps others from sending through us with a token of their own making.
package struct DialogToken: Hashable, Sendable {
    package let caller: DialogSide
    package let callee: DialogSide

    package init(caller: DialogSide, callee: DialogSide) {
        self.caller = caller
        self.callee = callee
    }

    /// Bytes of the seal: 80 bits, as RFC 5626 suggests.
    private static let sealLength = 10

    /// The token as text that needs no escaping in a URI's user part.
    package func sealed(by seal: ([UInt8]) -> [UInt8]) -> [UInt8] {
        var plain: [UInt8] = []
        plain.reserveCapacity(64)
        Self.encode(caller, into: &plain)
        Self.encode(callee, into: &plain)
        plain += seal(plain).prefix(Self.sealLength)
        return Hex.encode(plain)
    }

    /// `nil` when the text is not one of our tokens, or its seal is wrong.
    package init?(_ text: ByteString, seal: ([UInt8]) -> [UInt8]) {
        guard text.count % 2 == 0, text.count > Self.sealLength * 2, text.count <= 256 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let high = text[index].hexValue, let low = text[index + 1].hexValue else { return nil }
            bytes.append(high << 4 | low)
        }
        let plain = Array(bytes.dropLast(Self.sealLength))
        var difference: UInt8 = 0
        for (given, made) in zip(bytes.suffix(Self.sealLength), seal(plain)) { difference |= given ^ made }
        guard difference == 0 else { return nil }
        var rest = plain[...]
        guard let caller = Self.decode(&rest), let callee = Self.decode(&rest), rest.isEmpty else { return nil }
        self.init(caller: caller, callee: callee)
    }

    // MARK: Wire form of one side: flags, transport, listener, connection, address, port, binding

    private static func encode(_ side: DialogSide, into out: inout [UInt8]) {
        let isV4 = side.flow.remote.address.isV4
        let hasBinding = side.binding != nil
        out.append((isV4 ? 1 : 0) | (hasBinding ? 2 : 0) | side.flow.transport.rawValue << 4)
        out.append(UInt8(truncatingIfNeeded: side.flow.listener))
        if side.flow.transport.isReliable { append(side.flow.connection, bytes: 6, to: &out) }
        if isV4 {
            append(UInt64(side.flow.remote.address.v4Bits), bytes: 4, to: &out)
        } else {
            append(side.flow.remote.address.high, bytes: 8, to: &out)
            append(side.flow.remote.address.low, bytes: 8, to: &out)
        }
        append(UInt64(side.flow.remote.port), bytes: 2, to: &out)
        if let binding = side.binding { append(binding.rawValue, bytes: 8, to: &out) }
    }

    private static func decode(_ bytes: inout ArraySlice<UInt8>) -> DialogSide? {
        guard let flags = bytes.popFirst(), let listener = bytes.popFirst(),
            let transport = Transport(rawValue: flags >> 4)
        else { return nil }
        var connection: UInt64 = 0
        if transport.isReliable {
            guard let number = take(6, from: &bytes) else { return nil }
            connection = number
        }
        let address: IPAddress
        if flags & 1 != 0 {
            guard let bits = take(4, from: &bytes) else { return nil }
            address = IPAddress(v4: UInt32(truncatingIfNeeded: bits))
        } else {
            guard let high = take(8, from: &bytes), let low = take(8, from: &bytes) else { return nil }
            address = IPAddress(high: high, low: low)
        }
        guard let port = take(2, from: &bytes) else { return nil }
        var binding: BindingID?
        if flags & 2 != 0 {
            guard let number = take(8, from: &bytes) else { return nil }
            binding = BindingID(rawValue: number)
        }
        let flow = Flow(
            transport: transport, listener: UInt16(listener), connection: connection,
            remote: Endpoint(address, UInt16(truncatingIfNeeded: port)))
        return DialogSide(flow: flow, binding: binding)
    }

    private static func append(_ value: UInt64, bytes: Int, to out: inout [UInt8]) {
        for shift in stride(from: (bytes - 1) * 8, through: 0, by: -8) {
            out.append(UInt8(truncatingIfNeeded: value >> UInt64(shift)))
        }
    }

    private static func take(_ count: Int, from bytes: inout ArraySlice<UInt8>) -> UInt64? {
        guard bytes.count >= count else { return nil }
        let value = bytes.prefix(count).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        bytes = bytes.dropFirst(count)
        return value
    }
}
