package import Bytes
package import Addressing

// What a server writes into the topmost Via of a request (RFC 3261 section 18.2.1, RFC 3581 section 4).

extension SIPRequest {
    /// `;received=...` and, when the client asked for it, `;rport=...` for the topmost Via.
    ///
    /// If the client asked for `rport`, both are there. Otherwise there is `received` if the sent-by host is not the
    /// source address.
    package func viaAddition(source: Endpoint) -> ByteString {
        let asksForPort = via.wantsResponsePort
        if !asksForPort, via.host.withSpan({ IPAddress(ascii: $0) }) == source.address { return .empty }
        return .viaAddition(source: source, withPort: asksForPort)
    }

    /// Where a UDP response goes (RFC 3261 section 18.2.2, RFC 3581 section 4); `maddr` is ignored, since it would let
    /// a request aim our answers at somebody else.
    package func responseEndpoint(source: Endpoint) -> Endpoint {
        via.wantsResponsePort ? source : Endpoint(source.address, via.port ?? 5060)
    }
}

extension MessageFrame {
    /// The addition for a request that could not be read, from the bytes of its topmost Via. `received` is always
    /// there.
    package func viaAddition(source: Endpoint) -> ByteString {
        guard let field = fields.first(where: { $0.name == .via }) else { return .empty }
        let asksForPort = bytes[field.value].withSpan { value in
            RawParameters.contains(value) { RawParameters.name($0, $1, equals: "rport") }
        }
        return .viaAddition(source: source, withPort: asksForPort)
    }
}

extension ByteString {
    fileprivate static func viaAddition(source: Endpoint, withPort: Bool) -> ByteString {
        var out: [UInt8] = []
        out.reserveCapacity(64)
        out.append(";received=")
        out.append(source.address)
        if withPort {
            out.append(";rport=")
            out.append(decimal: source.port)
        }
        return ByteString(copying: out.span)
    }
}

extension [UInt8] {
    /// Appends an address as its text, IPv6 without brackets.
    package mutating func append(_ address: IPAddress) {
        guard address.isV4 else {
            append(contentsOf: address.description.utf8)
            return
        }
        let bits = address.v4Bits
        append(decimal: bits >> 24)
        append(".")
        append(decimal: bits >> 16 & 255)
        append(".")
        append(decimal: bits >> 8 & 255)
        append(".")
        append(decimal: bits & 255)
    }

    /// Appends a Via value with `addition` after its own parameters.
    ///
    /// `received` and `rport` of the value are replaced by those of the addition, because what a client wrote there
    /// itself is not believed.
    mutating func append(viaValue value: ByteString, addition: ByteString) {
        guard !addition.isEmpty else {
            append(value)
            return
        }
        let setsPort = addition.withSpan { span in
            RawParameters.contains(span) { RawParameters.name($0, $1, equals: "rport") }
        }
        value.withSpan { span in
            var from = 0
            while from < span.count {
                let end = RawParameters.end(span, from: from + 1)
                let isReplaced =
                    span[from] == UInt8(ascii: ";")
                    && (RawParameters.name(span, from, equals: "received")
                        || setsPort && RawParameters.name(span, from, equals: "rport"))
                if !isReplaced { append(value, from..<end) }
                from = end
            }
        }
        append(addition)
    }
}
