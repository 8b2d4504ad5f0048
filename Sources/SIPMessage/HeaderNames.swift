import Bytes
import SIPGrammar

/// Header field names and their compact forms (RFC 3261 section 7.3.3).
enum HeaderNames {
    /// The name in `range`, in any case.
    static func name(_ bytes: Span<UInt8>, _ range: Range<Int>) -> HeaderName {
        func isName(_ lowercase: StaticString) -> Bool { bytes.equalsIgnoringCase(range, lowercase) }
        if range.count > 11, bytes[range.lowerBound].asciiLowercased == UInt8(ascii: "p"),
            bytes.equalsIgnoringCase(range.lowerBound..<range.lowerBound + 11, "p-charging-")
        {
            return .pCharging
        }
        return switch range.count {
        case 1: compact(bytes[range.lowerBound].asciiLowercased)
        case 2: isName("to") ? .to : .other
        case 3: isName("via") ? .via : .other
        case 4:
            isName("from")
                ? .from
                : isName("cseq")
                    ? .cseq
                    : isName("date")
                        ? .date
                        : isName("path") ? .path : .other
        case 5: isName("route") ? .route : isName("allow") ? .allow : isName("event") ? .event : .other
        case 6: isName("accept") ? .accept : isName("reason") ? .reason : .other
        case 7:
            isName("contact")
                ? .contact
                : isName("call-id")
                    ? .callID
                    : isName("expires")
                        ? .expires
                        : isName("require")
                            ? .require
                            : isName("privacy") ? .privacy : .other
        case 8: isName("replaces") ? .replaces : .other
        case 9:
            isName("supported")
                ? .supported : isName("timestamp") ? .timestamp : isName("diversion") ? .diversion : .other
        case 10: isName("user-agent") ? .userAgent : .other
        case 11:
            isName("max-breadth")
                ? .maxBreadth
                : isName("min-expires")
                    ? .minExpires
                    : isName("retry-after")
                        ? .retryAfter
                        : isName("unsupported") ? .unsupported : .other
        case 12:
            isName("max-forwards")
                ? .maxForwards
                : isName("content-type")
                    ? .contentType
                    : isName("record-route")
                        ? .recordRoute
                        : isName("feature-caps")
                            ? .featureCaps
                            : isName("history-info") ? .historyInfo : .other
        case 13: isName("authorization") ? .authorization : isName("proxy-require") ? .proxyRequire : .other
        case 14: isName("content-length") ? .contentLength : .other
        case 15: isName("remote-party-id") ? .remotePartyID : .other
        case 16: isName("www-authenticate") ? .wwwAuthenticate : .other
        case 18: isName("proxy-authenticate") ? .proxyAuthenticate : .other
        case 19:
            isName("p-asserted-identity")
                ? .pAssertedIdentity
                : isName("proxy-authorization") ? .proxyAuthorization : .other
        case 20: isName("p-preferred-identity") ? .pPreferredIdentity : .other
        case 21: isName("p-access-network-info") ? .pAccessNetworkInfo : .other
        default: .other
        }
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
