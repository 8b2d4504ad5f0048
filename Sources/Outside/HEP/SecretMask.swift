import Bytes
import SIPGrammar

/// Replaces the secrets of a SIP message by `x` of the same length, so that Content-Length and positions stay right.
///
/// The secrets are credentials, `pn-*` parameters such as push tokens, passwords in URIs, media keys, and all bodies
/// except session descriptions. The daemon cannot know the fields of every app. The mask therefore hides a value if a
/// part of the field's or parameter's name suggests a secret.
package struct SecretMask: Sendable {
    /// Whether all bodies stay readable, not only session descriptions.
    package var keepsBodies: Bool

    package init(keepsBodies: Bool = false) { self.keepsBodies = keepsBodies }

    /// Masks the secrets of the message; `outline` is the outline of this message.
    package func apply(to message: inout [UInt8], _ outline: SIPOutline) {
        maskParameters(&message, outline.startLine, endsAtSpace: true)
        for field in outline.fields { mask(field, of: &message) }
        maskBody(&message, outline)
    }

    /// Masks the secrets of lines that are no SIP message, such as the lines of a log.
    package static func apply(toLines text: inout [UInt8]) {
        let range = text.startIndex..<text.endIndex
        SecretMask(keepsBodies: true).maskSession(&text, range, keepsOthers: true)
    }

    // MARK: Fields

    private func mask(_ field: SIPOutline.Field, of message: inout [UInt8]) {
        let name = message[field.name].map(\.asciiLowercased)
        if Self.challenges.contains(name) {
            maskChallenge(&message, field.value)
        } else if name.isEmpty {
            // A header line without a name may contain a secret, so it is masked.
            Self.mask(&message, field.value)
        } else if Self.isSecret(name) {
            let start = Self.schemeEnd(message, field.value)
            Self.mask(&message, start..<field.value.upperBound)
        } else {
            maskParameters(&message, field.value, endsAtSpace: false)
        }
    }

    /// The header fields with a server's challenges or proofs; descriptive parameters such as `realm` stay readable.
    private static let challenges: [[UInt8]] = [
        "www-authenticate", "proxy-authenticate", "authentication-info", "proxy-authentication-info",
    ].map { Array($0.utf8) }

    private static let harmless: [[UInt8]] = [
        "realm", "algorithm", "qop", "stale", "nc", "scope", "error", "authz_server",
    ].map { Array($0.utf8) }

    /// If the name of a field or parameter contains one of these words, its value is secret.
    private static let secretParts: [[UInt8]] = [
        "auth", "token", "passw", "passwd", "pwd", "secret", "cookie", "credential", "api-key", "apikey", "api_key",
    ].map { Array($0.utf8) }

    /// Whether the value of a field, parameter or JSON member with the given lower-case name is secret.
    package static func isSecret(_ name: [UInt8]) -> Bool { secretParts.contains { name.contains($0) } }

    /// The index at which the secret part of credentials begins: after the name of a known scheme.
    private static func schemeEnd(_ message: [UInt8], _ value: Range<Int>) -> Int {
        var start = value.lowerBound
        while start < value.upperBound, message[start].isLinearSpace { start += 1 }
        var end = start
        while end < value.upperBound, !message[end].isLinearSpace { end += 1 }
        let word = message[start..<end].map(\.asciiLowercased)
        return end < value.upperBound && schemes.contains(word) ? end : start
    }

    private static let schemes = ["digest", "bearer", "basic"].map { Array($0.utf8) }

    private func maskChallenge(_ message: inout [UInt8], _ value: Range<Int>) {
        var index = Self.schemeEnd(message, value)
        while index < value.upperBound {
            let start = index
            while index < value.upperBound, message[index] != UInt8(ascii: "="), message[index] != UInt8(ascii: ",") {
                index += 1
            }
            let name = message[start..<index].filter { !$0.isLinearSpace }.map(\.asciiLowercased)
            guard index < value.upperBound, message[index] == UInt8(ascii: "=") else {
                // A part without a name is no parameter, and may be a secret.
                if !Self.schemes.contains(name) { Self.mask(&message, start..<index) }
                index += 1
                continue
            }
            index += 1
            let end = Self.valueEnd(message, index..<value.upperBound) { $0 == UInt8(ascii: ",") }
            if !Self.harmless.contains(name) { Self.mask(&message, index..<end) }
            index = end + 1
        }
    }

    // MARK: Parameters

    /// The push parameters whose values are no secrets.
    private static let openPushParameters = ["pn-provider", "pn-type", "pn-silent", "pn-timeout", "pn-purr"].map {
        Array($0.utf8)
    }

    /// Masks the secret parameters and the passwords of all URIs in the range.
    private func maskParameters(_ message: inout [UInt8], _ range: Range<Int>, endsAtSpace: Bool) {
        var index = range.lowerBound
        while index < range.upperBound {
            let mark = message[index]
            if mark == UInt8(ascii: ":"), let password = Self.password(message, colon: index, range) {
                Self.mask(&message, password)
                index = password.upperBound
                continue
            }
            guard mark == UInt8(ascii: ";") || mark == UInt8(ascii: "?") || mark == UInt8(ascii: "&") else {
                index += 1
                continue
            }
            let (name, after) = Self.name(message, index + 1..<range.upperBound)
            let isPush = name.starts(with: Array("pn-".utf8)) && !Self.openPushParameters.contains(name)
            guard isPush || Self.isSecret(name), after < range.upperBound, message[after] == UInt8(ascii: "=") else {
                index += 1
                continue
            }
            var start = after + 1
            while start < range.upperBound, message[start].isLinearSpace { start += 1 }
            let end = Self.valueEnd(message, start..<range.upperBound) { byte in
                byte == UInt8(ascii: ">") || endsAtSpace && byte == UInt8(ascii: " ")
                    || (mark == UInt8(ascii: ";") ? byte == UInt8(ascii: ";") : byte == UInt8(ascii: "&"))
            }
            // As in the log, the first four characters of a long token stay readable.
            let shown = isPush && end - start >= 16 && message[start] != UInt8(ascii: "\"") ? 4 : 0
            Self.mask(&message, start + shown..<end)
            index = end
        }
    }

    /// The name of a parameter in lower case without percent-encoding, and the index after the name and following
    /// blanks.
    private static func name(_ message: [UInt8], _ range: Range<Int>) -> (name: [UInt8], after: Int) {
        var index = range.lowerBound
        var name: [UInt8] = []
        while index < range.upperBound, message[index].isLinearSpace { index += 1 }
        while index < range.upperBound, name.count < 64 {
            var byte = message[index]
            if byte == UInt8(ascii: "%"), index + 2 < range.upperBound, let high = message[index + 1].hexValue,
                let low = message[index + 2].hexValue
            {
                byte = high << 4 | low
                index += 2
            }
            guard byte.isToken else { break }
            name.append(byte.asciiLowercased)
            index += 1
        }
        while index < range.upperBound, message[index].isLinearSpace { index += 1 }
        return (name, index)
    }

    /// The index after a value at the range's start: after the closing quote, or at the first byte for which `isEnd` is
    /// true.
    private static func valueEnd(_ message: [UInt8], _ range: Range<Int>, _ isEnd: (UInt8) -> Bool) -> Int {
        var index = range.lowerBound
        while index < range.upperBound, message[index].isLinearSpace, !isEnd(message[index]) { index += 1 }
        if index < range.upperBound, message[index] == UInt8(ascii: "\"") {
            index += 1
            while index < range.upperBound, message[index] != UInt8(ascii: "\"") {
                index += message[index] == UInt8(ascii: "\\") ? 2 : 1
            }
            index = min(index, range.upperBound)
        }
        while index < range.upperBound, !isEnd(message[index]) { index += 1 }
        return index
    }

    /// The password of a URI `sip:user:password@host`; `nil` if `colon` is not the scheme's colon, or the URI has no
    /// password.
    private static func password(_ message: [UInt8], colon: Int, _ range: Range<Int>) -> Range<Int>? {
        guard isScheme(message, before: colon, range) else { return nil }
        var second: Int?
        for index in colon + 1..<range.upperBound {
            switch message[index] {
            case UInt8(ascii: "@"): return second.map { $0 + 1..<index }
            // A further "sip:" begins another URI, so the search for "@" ends there. Otherwise, the search would take
            // quadratic time in a text with many URIs without "@".
            case UInt8(ascii: ":") where second != nil && isScheme(message, before: index, range): return nil
            case UInt8(ascii: ":"): second = second ?? index
            case UInt8(ascii: ">"), UInt8(ascii: "<"), UInt8(ascii: "\""), UInt8(ascii: " "): return nil
            default: break
            }
        }
        return nil
    }

    /// Whether the text before a colon ends with the scheme of a SIP URI.
    private static func isScheme(_ message: [UInt8], before colon: Int, _ range: Range<Int>) -> Bool {
        guard colon - range.lowerBound >= 3 else { return false }
        func letter(_ back: Int) -> UInt8 {
            colon - back < range.lowerBound ? 0 : message[colon - back].asciiLowercased
        }
        let (i, p, s) = (UInt8(ascii: "i"), UInt8(ascii: "p"), UInt8(ascii: "s"))
        return letter(1) == p && letter(2) == i && letter(3) == s
            || letter(1) == s && letter(2) == p && letter(3) == i && letter(4) == s
    }

    // MARK: Bodies

    private func maskBody(_ message: inout [UInt8], _ outline: SIPOutline) {
        guard !outline.body.isEmpty else { return }
        let (isSession, isMessage) = Self.kind(message, outline)
        if isSession && !isMessage {
            maskSession(&message, outline.body, keepsOthers: false)
        } else if keepsBodies {
            maskSession(&message, outline.body, keepsOthers: true)
        } else {
            Self.mask(&message, outline.body)
        }
    }

    /// Whether the body is a plain session description, and whether the message is a MESSAGE.
    private static func kind(_ message: [UInt8], _ outline: SIPOutline) -> (isSession: Bool, isMessage: Bool) {
        let bytes = message.span
        var isSession = false
        for field in outline.fields {
            if bytes.equalsIgnoringCase(field.name, "content-encoding") || bytes.equalsIgnoringCase(field.name, "e") {
                return (false, outline.isOf("MESSAGE", bytes))
            }
            guard bytes.equalsIgnoringCase(field.name, "content-type") || bytes.equalsIgnoringCase(field.name, "c")
            else {
                continue
            }
            let value = bytes.trimmed(field.value)
            let start = value.lowerBound
            isSession =
                value.count >= 15 && bytes.equalsIgnoringCase(start..<start + 15, "application/sdp")
                && (value.count == 15 || bytes[start + 15] == UInt8(ascii: ";") || bytes[start + 15].isLinearSpace)
            if !isSession { break }
        }
        return (isSession, outline.isOf("MESSAGE", bytes))
    }

    /// Masks the keys of a session description, line by line. Unless `keepsOthers` is true, lines that do not belong to
    /// a session description are masked completely.
    private func maskSession(_ message: inout [UInt8], _ body: Range<Int>, keepsOthers: Bool) {
        var at = body.lowerBound
        while at < body.upperBound {
            let end = SIPOutline.lineEnd(message.span, from: at)
            let line = at..<end
            if let secret = Self.keyStart(message.span, line) {
                Self.mask(&message, secret..<end)
            } else if keepsOthers {
                if let colon = message[line].firstIndex(of: UInt8(ascii: ":")),
                    Self.isSecret(message[at..<colon].map(\.asciiLowercased))
                {
                    Self.mask(&message, colon + 1..<end)
                } else {
                    maskParameters(&message, line, endsAtSpace: false)
                }
            } else if !(line.count >= 2 && message[at + 1] == UInt8(ascii: "=")
                && UInt8(ascii: "a")...UInt8(ascii: "z") ~= message[at])
            {
                Self.mask(&message, line)
            }
            at = SIPOutline.nextLine(message.span, from: end)
        }
    }

    /// The index of the key in a line of a session description, if the line has one.
    private static func keyStart(_ bytes: Span<UInt8>, _ line: Range<Int>) -> Int? {
        func begins(_ text: StaticString) -> Int? {
            let end = line.lowerBound + text.utf8CodeUnitCount
            return end <= line.upperBound && bytes.equalsIgnoringCase(line.lowerBound..<end, text) ? end : nil
        }
        return begins("k=") ?? begins("a=crypto:") ?? begins("a=ice-pwd:") ?? begins("a=key-mgmt:")
    }

    /// Replaces all bytes of the range except line ends.
    private static func mask(_ message: inout [UInt8], _ range: Range<Int>) {
        for index in range where message[index] != UInt8(ascii: "\r") && message[index] != UInt8(ascii: "\n") {
            // Blanks at the start of a value stay, so that the field keeps its form.
            if index == range.lowerBound, message[index].isBlank { continue }
            message[index] = UInt8(ascii: "x")
        }
    }
}

extension [UInt8] {
    /// Whether the array contains the given bytes one after the other.
    fileprivate func contains(_ part: [UInt8]) -> Bool {
        guard count >= part.count else { return false }
        return (0...count - part.count).contains { self[$0..<$0 + part.count].elementsEqual(part) }
    }
}
