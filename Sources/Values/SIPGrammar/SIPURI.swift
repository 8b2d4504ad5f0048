package import Bytes

/// A URI (RFC 3261 section 19.1, RFC 3966): its text, and the positions of the parts of a `sip:`, `sips:` or `tel:`
/// URI.
package struct SIPURI: Sendable {
    package enum Scheme: UInt8, Hashable, Sendable {
        case sip, sips, tel, other

        /// Written by hand, because the compiler's own `==` is slower in other modules.
        @inlinable
        package static func == (left: Scheme, right: Scheme) -> Bool { left.rawValue == right.rawValue }
    }

    /// The whole URI as received, without angle brackets.
    package let text: ByteString
    package let scheme: Scheme
    /// Whether every part of the URI has a simple form that all programs read in the same way. Nearly all URIs have
    /// this form.
    package let isPlain: Bool
    package let port: UInt16?
    // The indices of the URI's parts in the text, in four bytes each, because a message has about six URIs.
    private let userStart, userEnd, passwordEnd, hostStart, hostEnd, addressEnd, headersStart: UInt32

    /// The user part with its escapes and without the password, or the number of a `tel:` URI; `nil` if the URI has
    /// none.
    package var user: ByteString? {
        userStart < hostStart || scheme == .tel ? text[Int(userStart)..<Int(userEnd)] : nil
    }
    package var password: ByteString? {
        userEnd < passwordEnd ? text[Int(userEnd) + 1..<Int(passwordEnd)] : nil
    }
    /// The host as received, with brackets for IPv6; empty if the URI has no host.
    package var host: ByteString { text[Int(hostStart)..<Int(hostEnd)] }
    package var parameters: Parameters {
        let end = headersStart > 0 ? Int(headersStart) - 1 : text.count
        return addressEnd < end ? Parameters(text[Int(addressEnd)..<end]) : .none
    }
    /// The text after the `?`, still percent-encoded. The proxy never copies this text into a request (RFC 3261 section
    /// 16.6).
    package var headers: ByteString? { headersStart > 0 ? text[Int(headersStart)..<text.count] : nil }

    /// The host, with a colon and the port if the URI has a port.
    package var hostPort: ByteString { text[Int(hostStart)..<Int(addressEnd)] }
    /// The text before the parameters and headers.
    package var address: ByteString { text[0..<Int(addressEnd)] }
    /// The text before the headers.
    package var withoutHeaders: ByteString { headersStart > 0 ? text[0..<Int(headersStart) - 1] : text }

    /// Finds the parts of a URI. URIs that are not plain are accepted here; the message reader decides whether they are
    /// valid.
    ///
    /// - Returns: `nil` if the scheme is missing, if a `sip:` or `sips:` URI has no host, or if another URI has no text
    ///   before its parameters.
    package init?(_ text: ByteString) {
        guard let parts = text.withSpan({ URIParts($0) }) else { return nil }
        self.text = text
        scheme = parts.scheme
        isPlain = parts.isPlain
        port = parts.port
        userStart = UInt32(parts.user.lowerBound)
        userEnd = UInt32(parts.user.upperBound)
        passwordEnd = UInt32(parts.passwordEnd)
        hostStart = UInt32(parts.host.lowerBound)
        hostEnd = UInt32(parts.host.upperBound)
        addressEnd = UInt32(parts.addressEnd)
        headersStart = UInt32(parts.headersStart ?? 0)
    }
}

/// The positions of the parts of a URI in its text.
private struct URIParts {
    var scheme = SIPURI.Scheme.other
    var isPlain = false
    var port: UInt16?
    /// The range of the user part; if the URI has none, an empty range at the start of the host.
    var user = 0..<0
    /// The index after the password, or after the user part if the URI has no password.
    var passwordEnd = 0
    var host = 0..<0
    /// The index after the host and its optional port.
    var addressEnd = 0
    var headersStart: Int?

    init?(_ bytes: Span<UInt8>) {
        // The scheme `sip` is tried first, because nearly all URIs have it.
        var colon = 3
        if bytes.count > 4, bytes.equalsIgnoringCase(0..<4, "sip:") {
            scheme = .sip
        } else {
            guard let end = Self.schemeEnd(bytes) else { return nil }
            colon = end
            guard bytes.equalsIgnoringCase(0..<colon, "sips") else {
                readOther(bytes, from: colon + 1, isTel: bytes.equalsIgnoringCase(0..<colon, "tel"))
                // A URI that begins with parameters is refused, because it could be empty after its `pn-*` parameters
                // are removed.
                guard bytes[colon + 1] != UInt8(ascii: ";") else { return nil }
                return
            }
            scheme = .sips
        }
        readUser(bytes, from: colon + 1)
        readHost(bytes)
        guard !host.isEmpty else { return nil }
        readRest(bytes)
    }

    private static func schemeEnd(_ bytes: Span<UInt8>) -> Int? {
        var colon = 0
        while colon < bytes.count, bytes[colon].isSchemeByte { colon += 1 }
        guard colon > 0, bytes[0].isASCIILetter, colon + 1 < bytes.count, bytes[colon] == UInt8(ascii: ":") else {
            return nil
        }
        return colon
    }

    /// Reads a URI other than `sip:` and `sips:`, and splits a `tel:` URI into number and parameters.
    private mutating func readOther(_ bytes: Span<UInt8>, from start: Int, isTel: Bool) {
        addressEnd = bytes.count
        user = start..<start
        guard isTel else { return }
        scheme = .tel
        addressEnd = bytes.firstIndex(of: UInt8(ascii: ";"), in: start..<bytes.count) ?? bytes.count
        user = start..<addressEnd
        passwordEnd = addressEnd
    }

    /// Reads the user part: everything before the first `@` (RFC 4475 section 3.1.1.9).
    private mutating func readUser(_ bytes: Span<UInt8>, from start: Int) {
        guard let at = bytes.firstIndex(of: UInt8(ascii: "@"), in: start..<bytes.count) else {
            user = start..<start
            passwordEnd = start
            host = start..<start
            isPlain = true
            return
        }
        var end = start
        while end < at, bytes[end].isPlainUserByte { end += 1 }
        isPlain = end == at && at > start
        if !isPlain { end = bytes.firstIndex(of: UInt8(ascii: ":"), in: start..<at) ?? at }
        user = start..<end
        passwordEnd = at
        host = at + 1..<at + 1
    }

    private mutating func readHost(_ bytes: Span<UInt8>) {
        var index = bytes.hostEnd(from: host.lowerBound, to: bytes.count)
        host = host.lowerBound..<index
        if index < bytes.count, bytes[index] == UInt8(ascii: ":"), !host.isEmpty {
            var number = 0
            index += 1
            let digits = index
            while index < bytes.count, bytes[index].isASCIIDigit, index - digits < 5 {
                number = number * 10 + Int(bytes[index] - UInt8(ascii: "0"))
                index += 1
            }
            port = index > digits ? UInt16(exactly: number) : nil
            if port == nil { isPlain = false }
        }
        if !host.isEmpty, index == bytes.count || bytes[index].endsAddress {
            addressEnd = index
        } else {
            readOddHost(bytes)
        }
    }

    /// Reads a host that is not a plain host name, such as an IPv6 address in brackets.
    private mutating func readOddHost(_ bytes: Span<UInt8>) {
        isPlain = false
        let start = host.lowerBound
        addressEnd = start
        while addressEnd < bytes.count, !bytes[addressEnd].endsAddress { addressEnd += 1 }
        var end = addressEnd
        if start < end, bytes[start] == UInt8(ascii: "[") {
            end = bytes.firstIndex(of: UInt8(ascii: "]"), in: start..<end).map { $0 + 1 } ?? end
        } else if let colon = bytes.firstIndex(of: UInt8(ascii: ":"), in: start..<end) {
            end = colon
        }
        host = start..<end
        port = nil
        guard end + 1 < addressEnd, bytes[end] == UInt8(ascii: ":") else { return }
        var number = 0
        for index in end + 1..<addressEnd {
            guard bytes[index].isASCIIDigit, number < 65_536 else { return }
            number = number * 10 + Int(bytes[index] - UInt8(ascii: "0"))
        }
        port = UInt16(exactly: number)
    }

    /// Reads the URI's parameters and headers. Parameters are plain if they are few, all have names, and contain no
    /// forbidden byte.
    private mutating func readRest(_ bytes: Span<UInt8>) {
        var index = addressEnd
        var count = 0
        while true {
            index = Self.nextTelling(bytes, from: index)
            guard index < bytes.count else { break }
            if bytes[index] == UInt8(ascii: "?") {
                if headersStart == nil { headersStart = index + 1 }
            } else if bytes[index] == UInt8(ascii: ";") {
                count += 1
                let next = index + 1 < bytes.count ? bytes[index + 1] : UInt8(ascii: "x")
                if headersStart == nil, next == UInt8(ascii: "=") || next.endsAddress { isPlain = false }
            } else {
                isPlain = false
            }
            index += 1
        }
        if count > Self.plainParameters { isPlain = false }
    }

    /// The index of the next byte that ends a parameter or is forbidden in a plain parameter, such as white space.
    private static func nextTelling(_ bytes: Span<UInt8>, from start: Int) -> Int {
        return bytes.firstPlace(in: start..<bytes.count) { block in
            block.marks(upTo: " ") .| block.marks(of: "\"") .| block.marks(of: ";")
                .| block.marks(of: "<") .| block.marks(of: ">")
                .| block.marks(of: "?")
        }
    }
    private static let plainParameters = 32
}

extension UInt8 {
    fileprivate var isSchemeByte: Bool {
        isASCIILetter || isASCIIDigit || self == UInt8(ascii: "+") || self == UInt8(ascii: "-")
            || self == UInt8(ascii: ".")
    }

    fileprivate var endsAddress: Bool { self == UInt8(ascii: ";") || self == UInt8(ascii: "?") }
}
