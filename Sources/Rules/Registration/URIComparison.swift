import Addressing
package import Bytes
package import SIPGrammar

extension SIPURI {
    /// Whether two hosts are equal: names without regard to case, and IPv6 addresses as numbers.
    package static func isSameHost(_ left: ByteString, _ right: ByteString) -> Bool {
        if left.equalsIgnoringCase(right) { return true }
        guard left.contains(UInt8(ascii: ":")), right.contains(UInt8(ascii: ":")),
            let a = left.withSpan({ IPAddress(ascii: $0) }), let b = right.withSpan({ IPAddress(ascii: $0) })
        else { return false }
        return a == b
    }

    /// The `name=value` pairs of the URI headers after `?`, sorted because their order has no meaning.
    fileprivate static func headerSet(_ headers: ByteString?) -> [[UInt8]] {
        guard let headers else { return [] }
        return headers.split(at: [UInt8(ascii: "&")]).map { pair in
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.count
            let name = pair[0..<equals].withEscapesNormalized().lowercased().array
            return name + pair[equals..<pair.count].withEscapesNormalized().array
        }.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

/// A URI in a form for fast comparisons, because one REGISTER can compare many contacts with many parameters.
///
/// Escapes are normalized, names are in lower case, and parameters are sorted, so that a comparison reads each URI
/// once.
struct ComparableURI {
    private let uri: SIPURI
    private let user, password: ByteString?
    private let parameters: [Hashed]
    private let headers: [[UInt8]]

    /// A URI parameter as the hashes of its name and its value. Only the contacts of one user are compared, so a hash
    /// collision harms only the user who caused it.
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
            // The values of push parameters are compared as bytes, and all other values without case. A missing
            // parameter value differs from an empty value.
            let value = place.value.map { all.text[$0].withEscapesNormalized() }
            hashed.append(
                Hashed(
                    name: Self.hash(all.text[place.name], ignoringCase: true),
                    value: value.map { Self.hash($0, ignoringCase: !isPush) } ?? 0, isPush: isPush,
                    mustBeInBoth: place.mustBeInBoth(in: bytes)))
        }
        // Sorting keeps the order of parameters with equal names.
        parameters = hashed.enumerated().sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }
            .map(\.element)
    }

    /// Whether two URIs are equivalent by RFC 3261 section 19.1.4 and RFC 8599 section 5.3.
    ///
    /// Equivalence is not transitive: a parameter that only one of two URIs has is ignored, unless both must have the
    /// parameter.
    ///
    /// If `ignoringPush` is true, all push parameters are ignored, for a device that switches its pushes on or off.
    func isEquivalent(to other: ComparableURI, ignoringPush: Bool = false) -> Bool {
        guard uri.scheme == other.uri.scheme else { return false }
        guard uri.scheme == .sip || uri.scheme == .sips else { return uri.text == other.uri.text }
        return uri.port == other.uri.port && user == other.user && password == other.password
            && SIPURI.isSameHost(uri.host, other.uri.host)
            && Self.agree(parameters, other.parameters, ignoringPush: ignoringPush) && headers == other.headers
    }

    /// Whether the parameters of two URIs agree. All values of a parameter must equal the first value of the same
    /// parameter in the other URI, and some parameters must be in both URIs.
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
    /// Whether the parameter is a push parameter, which other parties must not get: `pn-...`, or `app-id` of old
    /// Linphone versions. The parameter `pn-purr` does not count, because it is meant for other parties (RFC 8599
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
        // A known name of at most eight bytes is recognised by its first eight bytes, compared as one number.
        let word = bytes.lowercasedWord(name)
        if word & 0xff_ffff == ("pn-" as StaticString).word {
            return word != ("pn-purr" as StaticString).word || name.count > 8
        }
        return word == ("app-id" as StaticString).word && name.count <= 8
    }

    /// Whether both URIs must have the parameter, because RFC 3261 demands it or because it is a push parameter of RFC
    /// 8599.
    fileprivate func mustBeInBoth(in bytes: Span<UInt8>) -> Bool {
        for known: StaticString in [
            "transport", "user", "ttl", "method", "maddr", "pn-provider", "pn-prid", "pn-param", "pn-params",
        ] where bytes.equalsIgnoringCase(name, known) { return true }
        return false
    }
}

extension ByteString {
    /// Decodes percent-encoded unreserved characters, and writes other percent-encoding in upper case, so that equal
    /// texts have equal bytes.
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
