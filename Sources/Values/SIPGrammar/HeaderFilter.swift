package import Bytes

/// The header fields that the proxy removes from messages of untrusted peers (T9.7, T9.13, T9.14).
///
/// A name also matches in other case, in compact form, and with blanks before the colon.
package struct HeaderFilter: Hashable, Sendable {
    /// A header field name from the settings, in lower case. If `isPrefix` is true, all names that begin with the text
    /// match.
    private struct Name: Hashable {
        let text: [UInt8]
        let isPrefix: Bool
    }

    /// The removed names among the known header names, with one bit each.
    private let known: UInt64
    private let names: [Name]

    /// The fields that state an identity (RFC 3325, RFC 5806, RFC 7044, RFC 7315).
    package static let identity: [HeaderName] = [
        .pAssertedIdentity, .pPreferredIdentity, .remotePartyID, .diversion, .historyInfo, .pCharging,
        .pAccessNetworkInfo, .pOther,
    ]

    /// The fields that can make a phone answer automatically; harmless values of Alert-Info and Call-Info are kept.
    package static let commands: [HeaderName] = [.answerMode, .alertInfo, .callInfo]

    /// The `P-` fields that a phone may send. `P-` fields that are not in this list are for communication between
    /// networks (RFC 5727 section 4). The proxy removes all other `P-` fields, because the next network would trust
    /// values that a phone made up.
    private static let harmless: [StaticString] = [
        // P-Early-Media (RFC 5009) only describes how to treat early media.
        "p-early-media",
        // P-RTP-Stat only reports the sound quality; phones of AVM, Grandstream and snom send it in BYE.
        "p-rtp-stat",
    ]

    /// Makes a filter of header fields.
    ///
    /// - Parameters:
    ///   - known: the header names that are always removed.
    ///   - names: further names from the settings; a name that ends with `*` is a prefix.
    package init(_ known: [HeaderName] = HeaderFilter.identity + HeaderFilter.commands, names: [String]) {
        self.known = known.reduce(0) { $0 | $1.bit }
        self.names = names.map { name in
            let text = Array(name.lowercased().utf8)
            return text.last == UInt8(ascii: "*")
                ? Name(text: text.dropLast(), isPrefix: true) : Name(text: text, isPrefix: false)
        }
    }

    package func removes(_ field: HeaderField, of bytes: ByteString) -> Bool {
        if known & field.name.bit != 0, !Self.isHarmless(field, of: bytes) { return true }
        guard !names.isEmpty, !field.row.isEmpty, !field.name.isNeeded else { return false }
        return bytes.withSpan { bytes in
            let end = Self.nameEnd(bytes, field.row)
            let name = field.row.lowerBound..<end
            for wanted in names where Self.matches(bytes, name, wanted) { return true }
            guard name.count == 1, let long = CompactForm.name(of: bytes[name.lowerBound]) else { return false }
            return self.names(it: long)
        }
    }

    private static func isHarmless(_ field: HeaderField, of bytes: ByteString) -> Bool {
        switch field.name {
        case .pOther:
            bytes.withSpan { bytes in
                let name = field.row.lowerBound..<nameEnd(bytes, field.row)
                return harmless.contains { bytes.equalsIgnoringCase(name, $0) }
            }
        case .alertInfo: bytes[field.value].withSpan { HarmlessValue.namesTones($0) }
        case .callInfo: bytes[field.value].withSpan { HarmlessValue.namesPurposes($0) }
        default: false
        }
    }

    private static func nameEnd(_ bytes: Span<UInt8>, _ row: Range<Int>) -> Int {
        var end = row.lowerBound
        while end < row.upperBound, bytes[end] != UInt8(ascii: ":"), bytes[end] > UInt8(ascii: " ") { end += 1 }
        return end
    }

    private static func matches(_ bytes: Span<UInt8>, _ name: Range<Int>, _ wanted: Name) -> Bool {
        guard wanted.isPrefix ? name.count >= wanted.text.count : name.count == wanted.text.count else { return false }
        for index in wanted.text.indices where bytes[name.lowerBound + index].asciiLowercased != wanted.text[index] {
            return false
        }
        return true
    }

    /// Why the settings must not list the name for removal; `nil` if they may.
    package static func complaint(about name: String) -> String? {
        let text = name.last == "*" ? name.dropLast() : Substring(name)
        let isToken = text.utf8.allSatisfy { $0.isNameByte || ".!%+`'~".utf8.contains($0) }
        guard !text.isEmpty, isToken else { return "expected a header name, or a prefix of names with * at its end" }
        let wanted = HeaderFilter([], names: [name])
        guard let needed = HeaderName.neededTexts.first(where: { wanted.names(it: Array($0.lowercased().utf8)) }) else {
            return nil
        }
        return "SIP needs \(needed)"
    }

    /// Whether the filter contains a name, given in lower case.
    private func names(it text: [UInt8]) -> Bool {
        names.contains { $0.isPrefix ? text.starts(with: $0.text) : text == $0.text }
    }
}

/// The compact forms of header names (RFC 3261 section 20 and IANA's registry), such as `o` for `event`.
private enum CompactForm {
    static func name(of letter: UInt8) -> [UInt8]? {
        let name: StaticString? =
            switch letter.asciiLowercased {
            case UInt8(ascii: "a"): "accept-contact"
            case UInt8(ascii: "b"): "referred-by"
            case UInt8(ascii: "d"): "request-disposition"
            case UInt8(ascii: "e"): "content-encoding"
            case UInt8(ascii: "j"): "reject-contact"
            case UInt8(ascii: "k"): "supported"
            case UInt8(ascii: "n"): "identity-info"
            case UInt8(ascii: "o"): "event"
            case UInt8(ascii: "r"): "refer-to"
            case UInt8(ascii: "s"): "subject"
            case UInt8(ascii: "u"): "allow-events"
            case UInt8(ascii: "x"): "session-expires"
            case UInt8(ascii: "y"): "identity"
            default: nil
            }
        guard let name else { return nil }
        return Array(String(describing: name).utf8)
    }
}

extension HeaderName {
    /// Whether a message without the field would be invalid or could not be routed.
    fileprivate var isNeeded: Bool {
        switch self {
        case .via, .from, .to, .callID, .cseq, .contact, .contentLength, .contentType, .maxForwards, .route,
            .recordRoute, .proxyAuthorization, .authorization, .proxyAuthenticate, .wwwAuthenticate, .require,
            .proxyRequire, .event, .path:
            true
        default: false
        }
    }

    fileprivate static let neededTexts = [
        "Via", "From", "To", "Call-ID", "CSeq", "Contact", "Content-Length", "Content-Type", "Content-Encoding",
        "Max-Forwards", "Route", "Record-Route", "Proxy-Authorization", "Authorization", "Proxy-Authenticate",
        "WWW-Authenticate", "Require", "Proxy-Require", "Event", "Path", "Refer-To",
    ]
}

extension SIPResponse {
    /// A copy of the response without the fields that the filter removes; the response itself if no field matches.
    package func without(_ filter: HeaderFilter) -> SIPResponse {
        guard frame.fields.contains(where: { filter.removes($0, of: frame.bytes) }) else { return self }
        let kept = frame.fields.filter { !filter.removes($0, of: frame.bytes) }
        let rest = MessageFrame(
            bytes: frame.bytes, fields: HeaderFields(kept), headersStart: frame.headersStart, bodyStart: frame.bodyStart
        )
        return SIPResponse(
            frame: rest, status: status, via: via, viaCount: viaCount, to: to, callID: callID, cseq: cseq)
    }
}
