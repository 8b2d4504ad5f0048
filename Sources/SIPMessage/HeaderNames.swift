import SIPGrammar

/// Header field names and their compact forms (RFC 3261 section 7.3.3).
enum HeaderNames {
    /// The name in `range`, in any case.
    static func name(_ bytes: Span<UInt8>, _ range: Range<Int>) -> HeaderName {
        guard range.count > 1 else { return compact(bytes[range.lowerBound].asciiLowercased) }
        for (name, text) in candidates(range.count) where matches(bytes, range, text) { return name }
        return .other
    }

    private static func compact(_ letter: UInt8) -> HeaderName {
        switch letter {
        case UInt8(ascii: "c"): .contentType
        case UInt8(ascii: "f"): .from
        case UInt8(ascii: "i"): .callID
        case UInt8(ascii: "k"): .supported
        case UInt8(ascii: "l"): .contentLength
        case UInt8(ascii: "m"): .contact
        case UInt8(ascii: "o"): .event
        case UInt8(ascii: "t"): .to
        case UInt8(ascii: "v"): .via
        default: .other
        }
    }

    private static func matches(_ bytes: Span<UInt8>, _ range: Range<Int>, _ lowercase: StaticString) -> Bool {
        for index in range where bytes[index].asciiLowercased != lowercase.byte(at: index - range.lowerBound) {
            return false
        }
        return true
    }

    private static func candidates(_ length: Int) -> [(HeaderName, StaticString)] {
        length < byLength.count ? byLength[length] : []
    }

    private static let byLength: [[(HeaderName, StaticString)]] = {
        var table: [[(HeaderName, StaticString)]] = []
        for (name, text) in names {
            while table.count <= text.utf8CodeUnitCount { table.append([]) }
            table[text.utf8CodeUnitCount].append((name, text))
        }
        return table
    }()

    private static let names: [(HeaderName, StaticString)] = [
        (.via, "via"), (.from, "from"), (.to, "to"), (.callID, "call-id"), (.cseq, "cseq"), (.contact, "contact"),
        (.contentLength, "content-length"), (.contentType, "content-type"), (.maxForwards, "max-forwards"),
        (.route, "route"), (.recordRoute, "record-route"), (.supported, "supported"), (.allow, "allow"),
        (.accept, "accept"), (.expires, "expires"), (.userAgent, "user-agent"), (.authorization, "authorization"),
        (.proxyAuthorization, "proxy-authorization"), (.date, "date"), (.event, "event"),
        (.featureCaps, "feature-caps"), (.maxBreadth, "max-breadth"), (.minExpires, "min-expires"),
        (.pAssertedIdentity, "p-asserted-identity"), (.path, "path"), (.privacy, "privacy"),
        (.proxyAuthenticate, "proxy-authenticate"), (.proxyRequire, "proxy-require"), (.reason, "reason"),
        (.replaces, "replaces"), (.require, "require"), (.retryAfter, "retry-after"), (.timestamp, "timestamp"),
        (.unsupported, "unsupported"), (.wwwAuthenticate, "www-authenticate"),
    ]
}

extension HeaderName {
    /// Whether several values may stand in one row, separated by commas, and this program needs them one by one.
    var isList: Bool {
        switch self {
        case .via, .route, .recordRoute, .path, .contact: true
        default: false
        }
    }

    /// Whether a second row of it makes the message invalid (RFC 4475 section 3.3.8).
    var isSingle: Bool {
        switch self {
        case .callID, .cseq, .from, .to, .maxForwards, .contentLength: true
        default: false
        }
    }
}
