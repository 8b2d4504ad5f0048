import Bytes
import SIPGrammar

/// Recognises the names of header fields and their compact forms (RFC 3261 section 7.3.3).
enum HeaderNames {
    /// Reads the name of a header field, and finds the colon after it; `nil` if the name is invalid.
    static func read(_ bytes: Span<UInt8>, _ row: Range<Int>) -> (name: HeaderName, colon: Int)? {
        let start = row.lowerBound
        // Nearly all names have fewer than sixteen bytes, and a colon directly after them.
        if bytes.count - start >= 16 {
            let word = bytes.word(at: start)
            var count = word.count(before: UInt8(ascii: ":"))
            if count == 8 { count += bytes.word(at: start + 8).count(before: UInt8(ascii: ":")) }
            let colon = start + count
            if count > 0, count < 16, colon < row.upperBound, !bytes[colon - 1].isBlank {
                let first = (count < 8 ? word & (1 &<< UInt64(8 &* count) &- 1) : word).asciiLowercased
                let last = count < 8 ? first : bytes.word(at: colon - 8).asciiLowercased
                return judged(name(bytes, start..<colon, first, last), bytes, start..<colon, colon: colon)
            }
        }
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":"), in: row) else { return nil }
        var end = colon
        while end > start, bytes[end - 1].isBlank { end -= 1 }
        guard end > start else { return nil }
        let last = bytes.lowercasedWord(max(start, end - 8)..<end)
        return judged(
            name(bytes, start..<end, bytes.lowercasedWord(start..<end), last), bytes, start..<end, colon: colon)
    }

    /// Returns the header name, which may be an unknown token; `nil` for any other text.
    @inline(__always)
    private static func judged(
        _ name: HeaderName, _ bytes: Span<UInt8>, _ range: Range<Int>, colon: Int
    ) -> (name: HeaderName, colon: Int)? {
        if !name.isWhole { for index in range where !bytes[index].isToken { return nil } }
        return (name, colon)
    }

    /// The header name in `range`, in upper or lower case. The arguments `word` and `lastWord` are the first and last
    /// eight bytes of the name, in lower case. At most two known names have the same length and first letter; `word`
    /// and `lastWord` distinguish them.
    private static func name(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ word: UInt64, _ lastWord: UInt64
    ) -> HeaderName {
        // Whether the header name in the message equals the given text. The first and last eight bytes suffice for a
        // name of up to sixteen bytes. A name of more than sixteen bytes needs one more comparison.
        @inline(__always)
        func isName(_ lowercase: StaticString) -> Bool {
            word == lowercase.word && lastWord == lowercase.lastWord
                && (range.count <= 16 || bytes.equalsIgnoringCase(range, lowercase))
        }
        let first = UInt8(truncatingIfNeeded: word)
        if range.count > 2, UInt16(truncatingIfNeeded: word) == 0x2d70 { return privateName(bytes, range) }
        switch range.count {
        case 1: return compact(first)
        case 2: return isName("to") ? .to : .other
        case 3: return isName("via") ? .via : .other
        case 4:
            switch first {
            case UInt8(ascii: "f"): return isName("from") ? .from : .other
            case UInt8(ascii: "c"): return isName("cseq") ? .cseq : .other
            case UInt8(ascii: "d"): return isName("date") ? .date : .other
            case UInt8(ascii: "p"): return isName("path") ? .path : .other
            default: return .other
            }
        case 5:
            switch first {
            case UInt8(ascii: "r"): return isName("route") ? .route : .other
            case UInt8(ascii: "a"): return isName("allow") ? .allow : .other
            case UInt8(ascii: "e"): return isName("event") ? .event : .other
            default: return .other
            }
        case 6:
            switch first {
            case UInt8(ascii: "a"): return isName("accept") ? .accept : .other
            case UInt8(ascii: "r"): return isName("reason") ? .reason : .other
            default: return .other
            }
        case 7:
            switch first {
            case UInt8(ascii: "c"): return isName("contact") ? .contact : isName("call-id") ? .callID : .other
            case UInt8(ascii: "e"): return isName("expires") ? .expires : .other
            case UInt8(ascii: "r"): return isName("require") ? .require : .other
            case UInt8(ascii: "p"): return isName("privacy") ? .privacy : .other
            default: return .other
            }
        case 8: return isName("replaces") ? .replaces : .other
        case 9:
            switch first {
            case UInt8(ascii: "c"): return isName("call-info") ? .callInfo : .other
            case UInt8(ascii: "s"): return isName("supported") ? .supported : .other
            case UInt8(ascii: "t"): return isName("timestamp") ? .timestamp : .other
            case UInt8(ascii: "d"): return isName("diversion") ? .diversion : .other
            default: return .other
            }
        case 10:
            switch first {
            case UInt8(ascii: "u"): return isName("user-agent") ? .userAgent : .other
            case UInt8(ascii: "a"):
                return isName("alert-info") ? .alertInfo : isName("autoanswer") ? .answerMode : .other
            default: return .other
            }
        case 11:
            switch first {
            case UInt8(ascii: "a"): return isName("answer-mode") || isName("auto-answer") ? .answerMode : .other
            case UInt8(ascii: "m"):
                return isName("max-breadth") ? .maxBreadth : isName("min-expires") ? .minExpires : .other
            case UInt8(ascii: "r"): return isName("retry-after") ? .retryAfter : .other
            case UInt8(ascii: "u"): return isName("unsupported") ? .unsupported : .other
            default: return .other
            }
        case 12:
            switch first {
            case UInt8(ascii: "a"): return isName("answer-after") ? .answerMode : .other
            case UInt8(ascii: "m"): return isName("max-forwards") ? .maxForwards : .other
            case UInt8(ascii: "c"): return isName("content-type") ? .contentType : .other
            case UInt8(ascii: "r"): return isName("record-route") ? .recordRoute : .other
            case UInt8(ascii: "f"): return isName("feature-caps") ? .featureCaps : .other
            case UInt8(ascii: "h"): return isName("history-info") ? .historyInfo : .other
            default: return .other
            }
        case 13:
            switch first {
            case UInt8(ascii: "a"): return isName("authorization") ? .authorization : .other
            case UInt8(ascii: "p"): return isName("proxy-require") ? .proxyRequire : .other
            default: return .other
            }
        case 14: return isName("content-length") ? .contentLength : .other
        case 15: return isName("remote-party-id") ? .remotePartyID : .other
        case 16:
            return isName("www-authenticate")
                ? .wwwAuthenticate : isName("priv-answer-mode") ? .answerMode : .other
        case 18: return isName("proxy-authenticate") ? .proxyAuthenticate : .other
        case 19: return isName("proxy-authorization") ? .proxyAuthorization : .other
        default: return .other
        }
    }

    /// The header name of a text that begins with `P-` (RFC 5727 section 4).
    private static func privateName(_ bytes: Span<UInt8>, _ range: Range<Int>) -> HeaderName {
        if range.count > 11, bytes.equalsIgnoringCase(range.lowerBound..<range.lowerBound + 11, "p-charging-") {
            return .pCharging
        }
        if bytes.equalsIgnoringCase(range, "p-asserted-identity") { return .pAssertedIdentity }
        if bytes.equalsIgnoringCase(range, "p-preferred-identity") { return .pPreferredIdentity }
        if bytes.equalsIgnoringCase(range, "p-access-network-info") { return .pAccessNetworkInfo }
        return .pOther
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
    /// Whether a field with the name can have several values, separated by commas, that the daemon reads separately.
    var isList: Bool {
        switch self {
        case .via, .route, .recordRoute, .path, .contact: true
        default: false
        }
    }

    /// Whether the enum case stands for exactly one header name. Other cases stand for unknown names, or for all names
    /// with a prefix.
    var isWhole: Bool {
        switch self {
        case .other, .pCharging, .pOther: false
        default: true
        }
    }

    /// Whether a second field with the same name makes the message invalid (RFC 4475 section 3.3.8).
    var isSingle: Bool {
        switch self {
        case .callID, .cseq, .from, .to, .maxForwards, .contentLength: true
        default: false
        }
    }
}
