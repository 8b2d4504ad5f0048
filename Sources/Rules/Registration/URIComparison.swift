import Addressing
package import Bytes
package import SIPGrammar

extension SIPURI {
    /// Whether two hosts are the same. Host names are compared without case, and IPv6 addresses by value.
    package static func isSameHost(_ left: ByteString, _ right: ByteString) -> Bool {
        if left.equalsIgnoringCase(right) { return true }
        guard left.contains(UInt8(ascii: ":")), right.contains(UInt8(ascii: ":")),
            let a = left.withSpan({ IPAddress(ascii: $0) }), let b = right.withSpan({ IPAddress(ascii: $0) })
        else { return false }
        return a == b
    }

    /// The `name=value` pairs after `?`, sorted, because their order has no meaning.
    fileprivate static func headerSet(_ headers: ByteString?) -> [[UInt8]] {
        guard let headers else { return [] }
        return headers.split(at: [UInt8(ascii: "&")]).map { pair in
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.count
            let name = pair[0..<equals].withEscapesNormalized().lowercased().array
            return name + pair[equals..<pair.count].withEscapesNormalized().array
        }.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

/// A URI prepared for comparison with many others. One REGISTER may compare twelve contacts of fifty parameters with
/// twelve stored contacts.
///
/// Escapes are decoded, names are in lower case, and the parameters are sorted, so that a comparison is one pass.
struct ComparableURI {
    private let uri: SIPURI
    private let user, password: ByteString?
    private let parameters: [Hashed]
    private let headers: [[UInt8]]

    /// A parameter as the hashes of its name and its value. Only contacts of one user are compared, so a hash collision
    /// harms only the user who caused it.
    private struct Hashed {
        let name: UInt64
        let value: UInt64
        let isPush: Bool
        let mustBeInBoth: Bool
    }

    init(_ uri: SIPURI) {
        self.uri = uri
        user = uri.user?.withEscapesNormalized()
        password = uri.password?.withEscapesNormalized()
        headers = SIPURI.headerSet(uri.headers)
        var hashed: [Hashed] = []
        hashed.reserveCapacity(8)
        let all = uri.parameters
        all.forEachPlace { bytes, place in
            let isPush = place.isPush(in: bytes)
            // A token is compared as bytes, all other values without case. A missing value differs from an empty value.
            let value = place.value.map { all.text[$0].withEscapesNormalized() }
            hashed.append(
                Hashed(
                    name: Self.hash(all.text[place.name], ignoringCase: true),
                    value: value.map { Self.hash($0, ignoringCase: !isPush) } ?? 0, isPush: isPush,
                    mustBeInBoth: place.mustBeInBoth(in: bytes)))
        }
        // Parameters of the same name keep their order.
        parameters = hashed.enumerated().sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }
            .map(\.element)
    }

    /// Whether the two URIs identify the same resource by RFC 3261 section 19.1.4 and RFC 8599 section 5.3.
    ///
    /// The relation is not transitive: a parameter that only one URI has is ignored, except for the parameters that
    /// must match.
    ///
    /// If `ignoringPush` is true, all `pn-*` parameters are ignored, for a device that switches its pushes on or off.
    func isEquivalent(to other: ComparableURI, ignoringPush: Bool = false) -> Bool {
        guard uri.scheme == other.uri.scheme else { return false }
        guard uri.scheme == .sip || uri.scheme == .sips else { return uri.text == other.uri.text }
        return uri.port == other.uri.port && user == other.user && password == other.password
            && SIPURI.isSameHost(uri.host, other.uri.host)
            && Self.agree(parameters, other.parameters, ignoringPush: ignoringPush) && headers == other.headers
    }

    /// Whether the parameters of two URIs agree. Each value must equal the first value of the same name in the other
    /// URI, and some parameters must be in both URIs.
    private static func agree(_ these: [Hashed], _ those: [Hashed], ignoringPush: Bool) -> Bool {
        var left = 0
        var right = 0
        while left < these.count || right < those.count {
            let isLeft = left < these.count && (right == those.count || these[left].name <= those[right].name)
            let first = isLeft ? these[left] : those[right]
            let isRight = right < those.count && those[right].name == first.name
            let (leftStart, rightStart) = (left, right)
            while left < these.count, these[left].name == first.name { left += 1 }
            while right < those.count, those[right].name == first.name { right += 1 }
            if ignoringPush, first.isPush { continue }
            guard isLeft, isRight else {
                if first.mustBeInBoth { return false }
                continue
            }
            for index in leftStart..<left where these[index].value != those[rightStart].value { return false }
            for index in rightStart..<right where those[index].value != these[leftStart].value { return false }
        }
        return true
    }

    private static func hash(_ bytes: ByteString, ignoringCase: Bool) -> UInt64 {
        bytes.withSpan { span in
            var hash: UInt64 = 0xcbf2_9ce4_8422_2325
            for index in 0..<span.count {
                let byte = ignoringCase ? span[index].asciiLowercased : span[index]
                hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
            }
            return hash
        }
    }
}

extension ParameterPlace {
    /// Whether the name is `pn-*`, or `app-id` of Linphone's parameters before RFC 8599, with or without escapes. These
    /// parameters must never be sent to a peer. `pn-purr` does not count, because it is intended for peers (RFC 8599
    /// section 9.3).
    func isPush(in bytes: Span<UInt8>) -> Bool {
        if bytes.firstIndex(of: UInt8(ascii: "%"), in: name) != nil {
            let plain = ByteString(copying: bytes.extracting(name)).percentDecoded()
            return plain.withSpan { Self.isPush($0, 0..<$0.count) }
        }
        return Self.isPush(bytes, name)
    }

    private static func isPush(_ bytes: Span<UInt8>, _ name: Range<Int>) -> Bool {
        guard name.count > 3 else { return false }
        // The word has the first eight bytes of the name, which identify all known names of that length.
        let word = bytes.lowercasedWord(name)
        if word & 0xff_ffff == ("pn-" as StaticString).word {
            return word != ("pn-purr" as StaticString).word || name.count > 8
        }
        return word == ("app-id" as StaticString).word && name.count <= 8
    }

    /// Whether the parameter must be in both URIs, by RFC 3261 or as one of the three push parameters of RFC 8599.
    fileprivate func mustBeInBoth(in bytes: Span<UInt8>) -> Bool {
        for known: StaticString in [
            "transport", "user", "ttl", "method", "maddr", "pn-provider", "pn-prid", "pn-param", "pn-params",
        ] where bytes.equalsIgnoringCase(name, known) { return true }
        return false
    }
}

extension ByteString {
    /// Decodes escapes of unreserved characters, and writes other escapes in upper case, so that equal texts have equal
    /// bytes.
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
                out.append(percentEncoded: byte)
            }
            index += 3
        }
        return ByteString(out)
    }
}
