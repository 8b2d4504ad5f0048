import Bytes
import SIPGrammar

/// Header field names and their compact forms (RFC 3261 section 7.3.3).
enum HeaderNames {
    /// The name in `range`, in any case. Length and first letter leave at most two to compare with.
    static func name(_ bytes: Span<UInt8>, _ range: Range<Int>) -> HeaderName {
        func isName(_ lowercase: StaticString) -> Bool { bytes.equalsIgnoringCase(range, lowercase) }
        guard let first = range.isEmpty ? nil : bytes[range.lowerBound].asciiLowercased else { return .other }
        if range.count > 11, first == UInt8(ascii: "p"),
            bytes.equalsIgnoringCase(range.lowerBound..<range.lowerBound + 11, "p-charging-")
        {
            return .pCharging
        }
        switch (range.count, first) {
        case (1, _): return compact(first)
        case (2, UInt8(ascii: "t")): return isName("to") ? .to : .other
        case (3, UInt8(ascii: "v")): return isName("via") ? .via : .other
        case (4, UInt8(ascii: "f")): return isName("from") ? .from : .other
        case (4, UInt8(ascii: "c")): return isName("cseq") ? .cseq : .other
        case (4, UInt8(ascii: "d")): return isName("date") ? .date : .other
        case (4, UInt8(ascii: "p")): return isName("path") ? .path : .other
        case (5, UInt8(ascii: "r")): return isName("route") ? .route : .other
        case (5, UInt8(ascii: "a")): return isName("allow") ? .allow : .other
        case (5, UInt8(ascii: "e")): return isName("event") ? .event : .other
        case (6, UInt8(ascii: "a")): return isName("accept") ? .accept : .other
        case (6, UInt8(ascii: "r")): return isName("reason") ? .reason : .other
        case (7, UInt8(ascii: "c")): return isName("contact") ? .contact : isName("call-id") ? .callID : .other
        case (7, UInt8(ascii: "e")): return isName("expires") ? .expires : .other
        case (7, UInt8(ascii: "r")): return isName("require") ? .require : .other
        case (7, UInt8(ascii: "p")): return isName("privacy") ? .privacy : .other
        case (8, UInt8(ascii: "r")): return isName("replaces") ? .replaces : .other
        case (9, UInt8(ascii: "s")): return isName("supported") ? .supported : .other
        case (9, UInt8(ascii: "t")): return isName("timestamp") ? .timestamp : .other
        case (9, UInt8(ascii: "d")): return isName("diversion") ? .diversion : .other
        case (10, UInt8(ascii: "u")): return isName("user-agent") ? .userAgent : .other
        case (11, UInt8(ascii: "m")):
            return isName("max-breadth") ? .maxBreadth : isName("min-expires") ? .minExpires : .other
        case (11, UInt8(ascii: "r")): return isName("retry-after") ? .retryAfter : .other
        case (11, UInt8(ascii: "u")): return isName("unsupported") ? .unsupported : .other
        case (12, UInt8(ascii: "m")): return isName("max-forwards") ? .maxForwards : .other
        case (12, UInt8(ascii: "c")): return isName("content-type") ? .contentType : .other
        case (12, UInt8(ascii: "r")): return isName("record-route") ? .recordRoute : .other
        case (12, UInt8(ascii: "f")): return isName("feature-caps") ? .featureCaps : .other
        case (12, UInt8(ascii: "h")): return isName("history-info") ? .historyInfo : .other
        case (13, UInt8(ascii: "a")): return isName("authorization") ? .authorization : .other
        case (13, UInt8(ascii: "p")): return isName("proxy-require") ? .proxyRequire : .other
        case (14, UInt8(ascii: "c")): return isName("content-length") ? .contentLength : .other
        case (15, UInt8(ascii: "r")): return isName("remote-party-id") ? .remotePartyID : .other
        case (16, UInt8(ascii: "w")): return isName("www-authenticate") ? .wwwAuthenticate : .other
        case (18, UInt8(ascii: "p")): return isName("proxy-authenticate") ? .proxyAuthenticate : .other
        case (19, UInt8(ascii: "p")):
            return isName("p-asserted-identity")
                ? .pAssertedIdentity : isName("proxy-authorization") ? .proxyAuthorization : .other
        case (20, UInt8(ascii: "p")): return isName("p-preferred-identity") ? .pPreferredIdentity : .other
        case (21, UInt8(ascii: "p")): return isName("p-access-network-info") ? .pAccessNetworkInfo : .other
        default: return .other
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

    /// Whether it stands for one name, and not for any that this program does not know or that begins in some way.
    var isWhole: Bool {
        switch self {
        case .other, .pCharging: false
        default: true
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
