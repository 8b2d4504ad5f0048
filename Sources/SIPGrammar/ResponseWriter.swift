package import Addressing

/// Responses made from the bytes of the request they answer (RFC 3261 section 8.2.6).
extension MessageFrame {
    /// The bytes of a response to the request whose frame this is.
    ///
    /// - Parameters:
    ///   - toTag: added to To; `nil` leaves To as it is (it has a tag already, or this is 100).
    ///   - viaAddition: see ``SIPRequest/viaAddition(source:)``.
    ///   - fields: written after the copied ones, in order.
    package func response(
        _ status: Status, toTag: ByteString?, viaAddition: ByteString, fields: [AddedField]
    ) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(min(headLength, 1024) + 256 + fields.reduce(0) { $0 + $1.value.count + 32 })
        out.append("SIP/2.0 ")
        out.append(decimal: status.code)
        out.append(" ")
        out.append(status.reasonPhrase)
        out.append("\r\n")
        appendVias(topAddition: viaAddition, to: &out)
        for field in self.fields {
            switch field.name {
            case .from, .callID, .cseq: appendRow(field, to: &out)
            case .to:
                guard let toTag else {
                    appendRow(field, to: &out)
                    continue
                }
                out.append("To: ")
                out.append(bytes[field.value])
                out.append(";tag=")
                out.append(toTag)
                out.append("\r\n")
            case .timestamp where status == .trying: appendRow(field, to: &out)
            default: break
            }
        }
        for field in fields {
            out.append(field.name)
            out.append(": ")
            out.append(field.value)
            out.append("\r\n")
        }
        out.append("Content-Length: 0\r\n\r\n")
        return out
    }

    private var headLength: Int { bodyStart }

    func appendRow(_ field: HeaderField, to out: inout [UInt8]) { out.append(bytes[field.row]) }

    /// All Via values in order, the topmost with what RFC 3581 adds.
    func appendVias(topAddition: ByteString, to out: inout [UInt8]) {
        var isTop = true
        for field in fields where field.name == .via {
            out.append("Via: ")
            if isTop, !topAddition.isEmpty {
                appendWithoutEmptyResponsePort(bytes[field.value], to: &out)
                out.append(topAddition)
            } else {
                out.append(bytes[field.value])
            }
            out.append("\r\n")
            isTop = false
        }
    }

    /// The Via value less a `;rport` that has no value: the addition brings one with a value.
    private func appendWithoutEmptyResponsePort(_ via: ByteString, to out: inout [UInt8]) {
        let key: StaticString = ";rport"
        var index = 0
        while index + 6 <= via.count {
            if via[index] == UInt8(ascii: ";"), via[index..<index + 6].equalsIgnoringCase(key) {
                let next = index + 6 < via.count ? via[index + 6] : UInt8(ascii: ";")
                if next == UInt8(ascii: ";") || next == UInt8(ascii: " ") {
                    out.append(via[0..<index])
                    out.append(via[index + 6..<via.count])
                    return
                }
            }
            index += 1
        }
        out.append(via)
    }
}

extension SIPRequest {
    /// What a server adds to the topmost Via of a request it received (RFC 3581 section 4, RFC 3261 section 18.2.1):
    /// `;received=` and `;rport=` when the client asked for a response port, `;received=` alone when the sent-by host is
    /// not the source address, else nothing.
    package func viaAddition(source: Endpoint) -> ByteString {
        let wantsPort = via.wantsResponsePort
        guard wantsPort || !sentBy(isAt: source.address) else { return .empty }
        var text: [UInt8] = []
        text.append(";received=")
        text.append(contentsOf: source.address.description.utf8)
        if wantsPort {
            text.append(";rport=")
            text.append(decimal: source.port)
        }
        return ByteString(text)
    }

    /// Where a response to this request goes over UDP (RFC 3261 section 18.2.2, RFC 3581): the source address, and its
    /// port when the client asked for that, else the port in sent-by. `maddr` is not followed: it would let a stranger
    /// choose who gets our answers.
    package func responseEndpoint(source: Endpoint) -> Endpoint {
        Endpoint(source.address, via.wantsResponsePort ? source.port : via.port ?? 5060)
    }

    private func sentBy(isAt address: IPAddress) -> Bool { via.host.withSpan { IPAddress(ascii: $0) } == address }
}
