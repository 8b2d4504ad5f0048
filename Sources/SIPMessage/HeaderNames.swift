import SIPGrammar

/// Header field names as they stand on the wire, long and compact (RFC 3261 section 20, RFC 3265 and others).
enum HeaderNames {
    /// Lower-case names by length: most rows are decided by their length and one comparison.
    private static let byLength: [[(StaticString, HeaderName)]] = {
        let names: [(StaticString, HeaderName)] = [
            ("i", .callID), ("m", .contact), ("l", .contentLength), ("c", .contentType), ("f", .from), ("k", .supported),
            ("t", .to), ("v", .via), ("o", .event), ("to", .to), ("via", .via), ("from", .from), ("cseq", .cseq),
            ("date", .date), ("path", .path), ("allow", .allow), ("event", .event), ("route", .route),
            ("accept", .accept), ("reason", .reason), ("call-id", .callID), ("contact", .contact),
            ("expires", .expires), ("privacy", .privacy), ("require", .require), ("replaces", .replaces),
            ("supported", .supported), ("timestamp", .timestamp), ("user-agent", .userAgent),
            ("min-expires", .minExpires), ("max-breadth", .maxBreadth), ("retry-after", .retryAfter),
            ("unsupported", .unsupported), ("content-type", .contentType), ("feature-caps", .featureCaps),
            ("max-forwards", .maxForwards), ("record-route", .recordRoute), ("authorization", .authorization),
            ("proxy-require", .proxyRequire), ("content-length", .contentLength),
            ("www-authenticate", .wwwAuthenticate), ("proxy-authenticate", .proxyAuthenticate),
            ("proxy-authorization", .proxyAuthorization), ("p-asserted-identity", .pAssertedIdentity),
        ]
        var table: [[(StaticString, HeaderName)]] = Array(repeating: [], count: 20)
        for entry in names { table[entry.0.utf8CodeUnitCount].append(entry) }
        return table
    }()

    static func name(of bytes: Span<UInt8>, _ range: Range<Int>) -> HeaderName {
        guard range.count < byLength.count else { return .other }
        candidates: for (text, name) in byLength[range.count] {
            for index in 0..<range.count {
                guard unsafe bytes[range.lowerBound + index].asciiLowercased == text.utf8Start[index] else {
                    continue candidates
                }
            }
            return name
        }
        return .other
    }
}
