import Bytes
import PushDelivery
import SIPGrammar

/// The values of a stored contact that a start of the daemon needs. A quick scan finds them, because a start can read a
/// million contacts. Contacts in rare forms are parsed completely (see ``BindingTable/restore(_:settings:now:)``).
struct ContactSummary: Hashable {
    /// The push token of the contact; `nil` if the contact has no push parameters. The scanned token has a valid form,
    /// but may belong to no app in the settings.
    private(set) var token: PushToken?
    /// Whether the contact has the parameter `+sip.pnsreg`.
    private(set) var refreshesItself = false
    /// Whether the contact has the parameter `reg-id`.
    private(set) var hasFlowNumber = false

    /// Scans a stored contact.
    ///
    /// - Returns: `nil` if the contact has a rare form and must be parsed completely.
    init?(_ contact: ByteString) {
        guard let (summary, push) = contact.withSpan({ Self.read($0) }) else { return nil }
        self = summary
        guard let provider = push.provider, let prid = push.prid else { return }
        token = PushToken(
            provider: provider, param: push.param.map { contact[$0].percentDecoded() } ?? .empty,
            prid: contact[prid].percentDecoded())
    }

    private init() {}

    private static func read(_ text: Span<UInt8>) -> (Self, Push)? {
        var summary = Self()
        guard let close = text.firstIndex(of: UInt8(ascii: ">"), in: 0..<text.count),
            let address = Self.addressEnd(in: text, before: close), Self.isOrdinary(text, from: close + 1)
        else { return nil }
        var push = Push()
        let ofURI = text.extracting(address..<close)
        var index = 0
        while let parameter = ParameterPlace(ofURI, from: &index) { push.note(ofURI, parameter, from: address) }
        guard push.isAbsent || push.isOrdinary else { return nil }
        let ofContact = text.extracting((close + 1)...)
        index = 0
        while let name = ParameterPlace(ofContact, from: &index)?.name {
            if ofContact.equalsIgnoringCase(name, "+sip.pnsreg") { summary.refreshesItself = true }
            if ofContact.equalsIgnoringCase(name, "reg-id") { summary.hasFlowNumber = true }
            if ofContact.equalsIgnoringCase(name, "q") || ofContact.isPush(name) { return nil }
        }
        return (summary, push)
    }

    /// The end of the host in `<sip:user@host`; `nil` if the text before `close` has a rare form.
    private static func addressEnd(in text: Span<UInt8>, before close: Int) -> Int? {
        let start = 5
        guard close > start, text.equalsIgnoringCase(0..<start, "<sip:"),
            text.firstPlace(
                in: start..<close,
                where: { $0.marks(upTo: " ") .| $0.marks(of: "\"") .| $0.marks(of: "<") .| $0.marks(of: "?") }) == close
        else { return nil }
        var host = start
        if let at = text.firstIndex(of: UInt8(ascii: "@"), in: start..<close) {
            host = at + 1
            guard at > start, text.firstIndex(of: UInt8(ascii: ";"), in: start..<at) == nil,
                text.firstIndex(of: UInt8(ascii: "@"), in: host..<close) == nil
            else { return nil }
        }
        let end = text.firstIndex(of: UInt8(ascii: ";"), in: host..<close) ?? close
        return host < end && text[host] != UInt8(ascii: ":") ? end : nil
    }

    /// Whether the text after `>` is empty or has only parameters, without escapes in quoted values.
    private static func isOrdinary(_ text: Span<UInt8>, from start: Int) -> Bool {
        guard start == text.count || text[start] == UInt8(ascii: ";") else { return false }
        var index = start
        while true {
            index = text.firstPlace(in: index..<text.count) {
                $0.marks(upTo: " ") .| $0.marks(of: "\"") .| $0.marks(of: ">")
            }
            guard index < text.count else { return true }
            guard text[index] == UInt8(ascii: "\""),
                let end = text.firstIndex(of: UInt8(ascii: "\""), in: index + 1..<text.count),
                text.firstIndex(of: UInt8(ascii: "\\"), in: index..<end) == nil
            else { return false }
            index = end + 1
        }
    }

    /// The push parameters in the URI of the contact. If a push parameter occurs twice, the first value counts.
    private struct Push {
        private(set) var isAbsent = true
        private(set) var provider: PushProvider?
        private var hasProvider = false
        /// The ranges of the values of `pn-prid` and `pn-param` in the contact.
        private(set) var prid, param: Range<Int>?
        private var hasToken = false
        private var isOdd = false

        /// Whether the scan can read the push token: a Google token, or a single Apple token without a service.
        var isOrdinary: Bool { !isOdd && provider != nil && prid != nil && (provider != .apns || param != nil) }

        mutating func note(_ text: Span<UInt8>, _ parameter: ParameterPlace, from start: Int) {
            let (name, value) = (parameter.name, parameter.value)
            let place = value.map { $0.lowerBound + start..<$0.upperBound + start }
            guard text.isPush(name) else { return }
            isAbsent = false
            if let value, value.count > PushParameters.longestValue { isOdd = true }
            if text.equalsIgnoringCase(name, "pn-provider") {
                // Phones send `pn-provider` first. Parameters before `pn-provider` were read as if the provider were
                // Apple.
                guard !hasProvider else { return }
                hasProvider = true
                provider = value.flatMap {
                    text.equalsIgnoringCase($0, "fcm") ? .fcm : text.equalsIgnoringCase($0, "apns") ? .apns : nil
                }
                if provider == nil { isOdd = true }
            } else if text.equalsIgnoringCase(name, "pn-prid") {
                if !hasToken { prid = place }
                hasToken = true
                if provider != .fcm, let value, text.hasSeparator(value) { isOdd = true }
            } else if text.equalsIgnoringCase(name, "pn-param") || text.equalsIgnoringCase(name, "pn-params") {
                // A contact with two `pn-param` is parsed completely.
                if param != nil || place == nil { isOdd = true }
                param = place
                if provider != .fcm, value.map({ text.hasSeparator($0) }) ?? true { isOdd = true }
            }
        }
    }
}

extension Span<UInt8> {
    /// Whether the range contains `:` or `&`, which separate Apple's tokens and services, or a percent-encoded
    /// character.
    fileprivate func hasSeparator(_ range: Range<Int>) -> Bool {
        firstPlace(of: UInt8(ascii: ":"), UInt8(ascii: "&"), or: UInt8(ascii: "%"), in: range) < range.upperBound
    }

    /// Whether the name of a parameter begins with `pn-`, as the names of push parameters do.
    fileprivate func isPush(_ name: Range<Int>) -> Bool {
        name.count >= 3 && equalsIgnoringCase(name.lowerBound..<name.lowerBound + 3, "pn-")
    }
}
