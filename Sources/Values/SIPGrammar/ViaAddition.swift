import Bytes
package import Addressing

// The functions of `ViaAddition` add parameters to a request's topmost Via (RFC 3261 section 18.2.1, RFC 3581 section
// 4).

/// The parameters `received` and `rport` that this proxy adds to the topmost Via.
package struct ViaAddition: Hashable, Sendable {
    /// The source address of the request; `nil` if no parameter is added.
    let source: Endpoint?
    let setsPort: Bool

    package static let none = ViaAddition(nil, setsPort: false)

    package init(_ source: Endpoint?, setsPort: Bool) {
        self.source = source
        self.setsPort = setsPort
    }

    /// The maximum length in bytes of the added parameters.
    static let longest = 64
}

extension SIPRequest {
    /// The parameters that the request's topmost Via needs. If the client asked for `rport` (RFC 3581), both `received`
    /// and `rport` are added. If the client did not ask for `rport`, only `received` is added, and only if the sent-by
    /// host differs from the source address.
    package func viaAddition(source: Endpoint) -> ViaAddition {
        let asksForPort = via.wantsResponsePort
        if !asksForPort, via.host.withSpan({ IPAddress(ascii: $0) }) == source.address { return .none }
        return ViaAddition(source, setsPort: asksForPort)
    }

    /// The destination of a response over UDP (RFC 3261 section 18.2.2, RFC 3581 section 4). The proxy ignores `maddr`,
    /// because an attacker could use `maddr` to direct responses at other hosts.
    package func responseEndpoint(source: Endpoint) -> Endpoint {
        via.wantsResponsePort ? source : Endpoint(source.address, via.port ?? 5060)
    }
}

extension MessageFrame {
    /// The parameters for the topmost Via of a request that could not be fully read, always with `received`.
    package func viaAddition(source: Endpoint) -> ViaAddition {
        guard let field = fields.first(where: { $0.name == .via }) else { return .none }
        let asksForPort = bytes[field.value].withSpan { value in
            RawParameters.contains(value) { RawParameters.name($0, $1, equals: "rport") }
        }
        return ViaAddition(source, setsPort: asksForPort)
    }
}

extension ByteSink {
    /// Appends the text of an address; IPv6 has no brackets.
    package mutating func append(_ address: IPAddress) {
        guard address.isV4 else {
            append(Array(address.description.utf8).span)
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

    package mutating func append(_ addition: ViaAddition) {
        guard let source = addition.source else { return }
        append(";received=")
        append(source.address)
        guard addition.setsPort else { return }
        append(";rport=")
        append(decimal: source.port)
    }

    /// Appends a Via value with the new parameters.
    ///
    /// Values of `received` and `rport` from the client are dropped, because they may be false.
    mutating func append(viaValue value: ByteString, addition: ViaAddition) {
        guard addition.source != nil else {
            append(value)
            return
        }
        value.withSpan { span in
            var copied = 0
            var from = RawParameters.end(span, from: 0)
            while from < span.count {
                let end = RawParameters.end(span, from: from + 1)
                if RawParameters.name(span, from, equals: "received")
                    || addition.setsPort && RawParameters.name(span, from, equals: "rport")
                {
                    append(value, copied..<from)
                    copied = end
                }
                from = end
            }
            append(value, copied..<span.count)
        }
        append(addition)
    }
}
