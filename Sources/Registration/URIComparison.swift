import Addressing
package import SIPGrammar

extension SIPURI {
    /// Whether both name the same resource by RFC 3261 section 19.1.4 and RFC 8599 section 5.3.
    ///
    /// Not transitive: a parameter that only one of the two has does not count, save for the few that must match.
    ///
    /// With `ignoringPush` all `pn-*` parameters are left out, for a device that switches its pushes on or off.
    package func isEquivalent(to other: SIPURI, ignoringPush: Bool = false) -> Bool {
        guard scheme == other.scheme else { return false }
        guard scheme == .sip || scheme == .sips else { return text == other.text }
        return user?.withEscapesNormalized() == other.user?.withEscapesNormalized()
            && password?.withEscapesNormalized() == other.password?.withEscapesNormalized()
            && Self.isSameHost(host, other.host) && port == other.port
            && parametersAgree(with: other, ignoringPush: ignoringPush)
            && Self.headerSet(headers) == Self.headerSet(other.headers)
    }

    /// Names are compared without case, IPv6 addresses by value.
    package static func isSameHost(_ left: ByteString, _ right: ByteString) -> Bool {
        if left.equalsIgnoringCase(right) { return true }
        guard left.contains(UInt8(ascii: ":")), right.contains(UInt8(ascii: ":")),
            let a = left.withSpan({ IPAddress(ascii: $0) }), let b = right.withSpan({ IPAddress(ascii: $0) })
        else { return false }
        return a == b
    }

    private func parametersAgree(with other: SIPURI, ignoringPush: Bool) -> Bool {
        for (these, those) in [(parameters, other.parameters), (other.parameters, parameters)] {
            for parameter in these where !(ignoringPush && parameter.isPush) {
                if let match = those.first(where: { $0.name.equalsIgnoringCase(parameter.name) }) {
                    guard parameter.hasSameValue(as: match) else { return false }
                } else if parameter.mustBeInBoth {
                    return false
                }
            }
        }
        return true
    }

    /// The `name=value` pairs after `?` in one order, so that their own order does not count.
    private static func headerSet(_ headers: ByteString?) -> [[UInt8]] {
        guard let headers else { return [] }
        return headers.split(at: [UInt8(ascii: "&")]).map { pair in
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.count
            let name = pair[0..<equals].withEscapesNormalized().lowercased().array
            return name + pair[equals..<pair.count].withEscapesNormalized().array
        }.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

extension Parameter {
    /// `pn-*`, and `app-id` of the set that Linphone sent before RFC 8599: what must never leave toward a peer, be its
    /// name escaped or not. `pn-purr` is made to be seen by peers (RFC 8599 section 9.3).
    var isPush: Bool {
        // Nearly all are told apart by their first letter.
        guard !name.isEmpty else { return false }
        let first = name[0] | 0x20
        guard first == UInt8(ascii: "p") || first == UInt8(ascii: "a") || name.contains(UInt8(ascii: "%")) else {
            return false
        }
        let plain = name.contains(UInt8(ascii: "%")) ? name.percentDecoded() : name
        if plain.count > 3, plain[0..<3].equalsIgnoringCase("pn-") { return !plain.equalsIgnoringCase("pn-purr") }
        return plain.equalsIgnoringCase("app-id")
    }

    /// The parameters that match no URI without them, and the RFC 8599 triple.
    fileprivate var mustBeInBoth: Bool {
        for known: StaticString in ["transport", "user", "ttl", "method", "maddr"]
        where name.equalsIgnoringCase(known) { return true }
        return isPushTriple
    }

    private var isPushTriple: Bool {
        name.equalsIgnoringCase("pn-provider") || name.equalsIgnoringCase("pn-prid")
            || name.equalsIgnoringCase("pn-param") || name.equalsIgnoringCase("pn-params")
    }

    fileprivate func hasSameValue(as other: Parameter) -> Bool {
        guard let value, let otherValue = other.value else { return self.value == nil && other.value == nil }
        let (left, right) = (value.withEscapesNormalized(), otherValue.withEscapesNormalized())
        // A token is compared as bytes, everything else without case.
        return isPush ? left == right : left.equalsIgnoringCase(right)
    }
}

extension ByteString {
    /// Escapes of unreserved characters undone, the others in upper case: equal bytes then mean equal text.
    func withEscapesNormalized() -> ByteString {
        guard contains(UInt8(ascii: "%")) else { return self }
        var out: [UInt8] = []
        out.reserveCapacity(count)
        var index = 0
        while index < count {
            guard self[index] == UInt8(ascii: "%"), index + 2 < count, let high = self[index + 1].hexValue,
                let low = self[index + 2].hexValue
            else {
                out.append(self[index])
                index += 1
                continue
            }
            let byte = high << 4 | low
            if byte.isUnreserved {
                out.append(byte)
            } else {
                out.append(escaping: byte)
            }
            index += 3
        }
        return ByteString(out)
    }
}

extension [UInt8] {
    /// Appends `%HH`.
    mutating func append(escaping byte: UInt8) {
        append(UInt8(ascii: "%"))
        for digit in [byte >> 4, byte & 15] {
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "A") + digit - 10)
        }
    }
}
