package import Addressing
package import Bytes
package import SIPGrammar

/// A URI that leads to one device of a user, whatever address the device has (RFC 5627). A public GRUU shows the user
/// and the device. A temporary GRUU is encrypted, and only the daemon can read it.
package enum GRUU {
    /// A public GRUU, whose parameter `gr` is the instance of one of the AOR's devices.
    case publicly(instance: ByteString)
    /// A temporary GRUU, whose user part is encrypted.
    case temporary(sealed: ByteString)

    /// Reads a GRUU from the Request-URI of a request for one of the daemon's domains; `nil` for a URI that is not a
    /// GRUU.
    package init?(_ uri: SIPURI) {
        guard let parameter = uri.parameters.first(named: "gr") else { return nil }
        if let user = uri.user, user.hasPrefix(Self.prefix) {
            self = .temporary(sealed: user[Self.prefix.utf8CodeUnitCount..<user.count])
        } else if let instance = parameter.value {
            self = .publicly(instance: instance.percentDecoded().lowercased())
        } else {
            return nil
        }
    }

    private static let prefix: StaticString = "tgruu."

    /// The range of the instance in a contact, without quotes and brackets; `nil` without an instance, or if many
    /// devices can have it.
    static func instance(in text: Span<UInt8>) -> Range<Int>? {
        guard let close = text.firstIndex(of: UInt8(ascii: ">"), in: 0..<text.count) else { return nil }
        let parameters = text.extracting((close + 1)...)
        var index = 0
        while let parameter = ParameterPlace(parameters, from: &index) {
            guard parameters.equalsIgnoringCase(parameter.name, "+sip.instance") else { continue }
            guard var value = parameter.value else { return nil }
            for (open, end) in [(UInt8(ascii: "\""), UInt8(ascii: "\"")), (UInt8(ascii: "<"), UInt8(ascii: ">"))]
            where value.count > 2 && parameters[value.lowerBound] == open && parameters[value.upperBound - 1] == end {
                value = value.lowerBound + 1..<value.upperBound - 1
            }
            let shared: StaticString = "urn:uuid:00000000-0000-0000-0000"
            let prefix = value.prefix(shared.utf8CodeUnitCount)
            guard !parameters.equalsIgnoringCase(prefix.startIndex..<prefix.endIndex, shared) else { return nil }
            return value.lowerBound + close + 1..<value.upperBound + close + 1
        }
        return nil
    }

    /// Appends the Contact parameter `pub-gruu` for a device. The parameter `place` is the range of the device's
    /// instance in `out`.
    static func appendPublic(of aor: AddressOfRecord, instanceAt place: Range<Int>, to out: inout ByteSink) {
        out.append(";pub-gruu=\"sip:")
        out.append(asParameter: aor.user)
        out.append("@")
        out.append(aor.host)
        out.append(";gr=")
        out.append(asParameter: place)
        out.append("\"")
    }

    /// Appends the Contact parameter `temp-gruu`. The closure `seal` appends the encrypted user part of the GRUU.
    static func appendTemporary(at host: ByteString, to out: inout ByteSink, _ seal: (inout ByteSink) -> Void) {
        out.append(";temp-gruu=\"sip:")
        out.append(prefix)
        seal(&out)
        out.append("@")
        out.append(host)
        out.append(";gr\"")
    }
}

/// The encrypted names in a 200 to a REGISTER. Each encrypted name contains the number of its 200, so that each 200 has
/// different texts. Only the daemon can see that two encrypted names belong to one user (RFC 5627 section 3.1.2, RFC
/// 8599 section 6.2.1).
package enum SealedName {
    /// The content of a temporary GRUU: the device, and a hash of the Call-ID of the device's REGISTER.
    case temporaryGRUU(DeviceID, callID: UInt32, answer: UInt32)
    /// The content of a `pn-purr`; a `pn-purr` names the registration in requests inside dialogs (RFC 8599 section 6).
    case purr(DeviceID, answer: UInt32)
}

extension BindingTable {
    /// The AOR's device with the given instance; `nil` if no device has the instance.
    package func device(of aor: AddressOfRecord, instance: ByteString) -> DeviceID? {
        var found: DeviceID?
        forEachSlot(of: aor) { slot in
            guard found == nil, self.instance(at: slot) == instance else { return }
            found = device(of: self[slot].id)
        }
        return found
    }

    /// A hash of the Call-ID with which the device registered. Equal Call-IDs have equal hashes in every run of the
    /// daemon.
    package func callIDNumber(of id: DeviceID) -> UInt32? { slot(of: id).map { callIDNumber(at: $0) } }

    func callIDNumber(at slot: UInt32) -> UInt32 {
        let record = self[slot]
        return blocks.withBytes(record.block) { bytes in
            // The hash function is Fowler-Noll-Vo. A collision gives nobody an advantage, because the hash is encrypted
            // in the GRUU.
            var hash: UInt32 = 0x811c_9dc5
            for index in record.callIDRange { hash = (hash ^ UInt32(bytes[index])) &* 0x0100_0193 }
            return hash
        }
    }

    /// The `+sip.instance` of the contact in a slot; `nil` without an instance, or if many devices can have it.
    func instance(at slot: UInt32) -> ByteString? {
        guard let instance = ContactText.read(binding(at: slot).contact)?.instance, !DeviceLabel.isShared(instance)
        else { return nil }
        return instance
    }
}

extension ByteSink {
    /// Appends bytes as the value of a URI parameter. Nearly all parameter values need no percent-encoding, and are
    /// appended directly.
    fileprivate mutating func append(asParameter value: ByteString) {
        if value.withSpan(Self.isPlain) { return append(value) }
        append(escapingParameter: value)
    }

    /// Appends a range of the sink's own bytes again, as the value of a URI parameter.
    fileprivate mutating func append(asParameter place: Range<Int>) {
        guard let isPlain = withBytes(place, Self.isPlain) else { return }
        if isPlain { return append(again: place) }
        if let value = withBytes(place, { ByteString(copying: $0) }) { append(escapingParameter: value) }
    }

    private mutating func append(escapingParameter value: ByteString) {
        var escaped: [UInt8] = []
        escaped.append(escapingParameter: value)
        append(escaped.span)
    }

    private static func isPlain(_ bytes: Span<UInt8>) -> Bool {
        let other = bytes.firstPlace(in: 0..<bytes.count) { block in
            // Letters and the ASCII characters from `-` to `:`, which include the digits, need no percent-encoding.
            let letters = (block | SIMD16(repeating: 0x20)) &- SIMD16(repeating: UInt8(ascii: "a"))
            let digits = block &- SIMD16(repeating: UInt8(ascii: "-"))
            return (letters .> SIMD16(repeating: 25)) .& (digits .> SIMD16(repeating: 13))
        }
        return other == bytes.count
    }
}
