import Bytes
import PushDelivery

/// What a restart has to know of a stored contact, as far as it is told by a look at the bytes: a start reads a million of
/// them. Contacts of forms that few phones send are read in full, see ``BindingTable/restore(_:settings:now:)``.
struct ContactSummary: Hashable {
    /// The provider of its token, which is one that every set of settings accepts; `nil` where there are no push
    /// parameters at all.
    private(set) var provider: PushProvider?
    /// It has `+sip.pnsreg`.
    private(set) var refreshesItself = false

    /// - Returns: `nil` when the contact has to be read in full.
    init?(_ contact: ByteString) {
        guard let summary = contact.withSpan({ Self(text: $0) }) else { return nil }
        self = summary
    }

    private init?(text: Span<UInt8>) {
        guard let address = Self.address(in: text) else { return nil }
        var push = Push()
        guard let end = Self.parameters(in: text, from: address, to: UInt8(ascii: ">"), { push.note(text, $0, $1) })
        else { return nil }
        guard push.isAbsent || push.isOrdinary else { return nil }
        provider = push.provider
        var isOrdinary = true
        var refreshes = false
        let rest = Self.parameters(in: text, from: end + 1, to: nil) { name, _ in
            if text.isName(name, "+sip.pnsreg") { refreshes = true }
            if text.isName(name, "q") || text.isPush(name) { isOrdinary = false }
        }
        guard rest != nil, isOrdinary else { return nil }
        refreshesItself = refreshes
    }

    /// Where the host of `<sip:user@host` ends.
    private static func address(in text: Span<UInt8>) -> Int? {
        let start: StaticString = "<sip:"
        guard text.count > start.utf8CodeUnitCount else { return nil }
        for index in 0..<start.utf8CodeUnitCount where text[index] != start.byte(at: index) { return nil }
        var host = start.utf8CodeUnitCount
        for index in host..<text.count {
            switch text[index] {
            case UInt8(ascii: "@"):
                guard host == start.utf8CodeUnitCount, index > host else { return nil }
                host = index + 1
            case UInt8(ascii: ";"), UInt8(ascii: ">"):
                guard host < index, text[host] != UInt8(ascii: ":") else { return nil }
                return index
            case UInt8(ascii: "?"), UInt8(ascii: "\""), 0...0x20: return nil
            default: break
            }
        }
        return nil
    }

    /// Goes through `;name=value;...`.
    ///
    /// - Parameters:
    ///   - text: the contact.
    ///   - start: where the first `;` stands, unless there is none.
    ///   - end: the byte behind the last, or `nil` for the end of the text, where values may be quoted.
    ///   - note: told of each name and its value, which is empty where there is none.
    /// - Returns: where the end is; `nil` for what has to be read in full.
    private static func parameters(
        in text: Span<UInt8>, from start: Int, to end: UInt8?, _ note: (Range<Int>, Range<Int>) -> Void
    ) -> Int? {
        guard start < text.count else { return end == nil ? start : nil }
        guard text[start] == UInt8(ascii: ";") || text[start] == end else { return nil }
        var name = start..<start
        var equals: Int?
        var isQuoted = false
        for index in start..<text.count {
            let byte = text[index]
            if isQuoted {
                guard byte != UInt8(ascii: "\\") else { return nil }
                if byte == UInt8(ascii: "\"") { isQuoted = false }
                continue
            }
            switch byte {
            case UInt8(ascii: "="): if equals == nil { equals = index }
            case UInt8(ascii: "\""):
                guard end == nil else { return nil }
                isQuoted = true
            case UInt8(ascii: "@"), UInt8(ascii: "?"), UInt8(ascii: "<"): if end != nil { return nil }
            case 0...0x20: return nil
            case UInt8(ascii: ";"), UInt8(ascii: ">"):
                guard byte == UInt8(ascii: ";") || byte == end else { return nil }
                if index > start {
                    name = name.lowerBound..<(equals ?? index)
                    note(name, equals.map { $0 + 1..<index } ?? index..<index)
                }
                if byte == end { return index }
                name = index + 1..<index + 1
                equals = nil
            default: break
            }
        }
        guard end == nil, !isQuoted else { return nil }
        note(name.lowerBound..<(equals ?? text.count), equals.map { $0 + 1..<text.count } ?? text.count..<text.count)
        return text.count
    }

    /// The push parameters of the URI, of which the first of each name counts.
    private struct Push {
        private(set) var isAbsent = true
        private(set) var provider: PushProvider?
        private var hasProvider = false
        private var hasToken: Bool?
        private var hasParam = false
        private var isOdd = false

        /// A token that is accepted whatever the settings are: one of Google's, or a single one of Apple's that names no
        /// service.
        var isOrdinary: Bool { !isOdd && provider != nil && hasToken == true && (provider != .apns || hasParam) }

        mutating func note(_ text: Span<UInt8>, _ name: Range<Int>, _ value: Range<Int>) {
            guard text.isPush(name) else { return }
            isAbsent = false
            if value.count > PushParameters.longestValue { isOdd = true }
            if text.isName(name, "pn-provider") {
                // It stands before the others in what phones send; where it does not, those are judged as Apple's.
                guard !hasProvider else { return }
                hasProvider = true
                provider = text.isName(value, "fcm") ? .fcm : text.isName(value, "apns") ? .apns : nil
                if provider == nil { isOdd = true }
            } else if text.isName(name, "pn-prid") {
                if hasToken == nil { hasToken = !value.isEmpty }
                if provider != .fcm, text.hasSeparator(value) { isOdd = true }
            } else if text.isName(name, "pn-param") || text.isName(name, "pn-params") {
                hasParam = !value.isEmpty
                if provider != .fcm, value.isEmpty || text.hasSeparator(value) { isOdd = true }
            }
        }
    }
}

extension Span<UInt8> {
    fileprivate func isName(_ range: Range<Int>, _ word: StaticString) -> Bool {
        guard range.count == word.utf8CodeUnitCount else { return false }
        for index in 0..<range.count where self[range.lowerBound + index].asciiLowercased != word.byte(at: index) {
            return false
        }
        return true
    }

    /// Whether there is what separates Apple's tokens and services, or something escaped, which may be one.
    fileprivate func hasSeparator(_ range: Range<Int>) -> Bool {
        for index in range {
            switch self[index] {
            case UInt8(ascii: ":"), UInt8(ascii: "&"), UInt8(ascii: "%"): return true
            default: break
            }
        }
        return false
    }

    /// Whether the name begins as those of push parameters do.
    fileprivate func isPush(_ name: Range<Int>) -> Bool {
        name.count >= 3 && isName(name.lowerBound..<name.lowerBound + 3, "pn-")
    }
}
