import Bytes
import HEP
import JSON
import SIPGrammar
import Telemetry

/// Hides secrets in the texts of the page, by the same rules as HEP packets.
///
/// The mask also hides the scenario's tokens and passwords wherever they occur, such as in Call-IDs or a push's member
/// `to`. A token or password of fewer than four bytes is hidden only where it is a whole value.
struct PageMask {
    /// The push tokens in the order of their numbers, each with its owner and its redacted form.
    private(set) var legend: [(name: String, owner: String?, redacted: String)] = []
    private var names: [String: String] = [:]
    /// Texts that no part of the page may contain, by their first four bytes in lower case, longest first.
    private var hidden: [UInt32: [Hidden]] = [:]
    private var short: Set<String> = []

    private struct Hidden {
        let bytes: [UInt8]
        let isToken: Bool
    }

    init(tokens: [KnownToken] = [], secrets: [String] = []) {
        for (index, known) in tokens.enumerated() {
            names[known.token] = "token \(index + 1)"
            legend.append(("token \(index + 1)", known.owner, Redacted(known.token).description))
        }
        for text in tokens.map(\.token) + secrets where !text.isEmpty {
            let bytes = text.utf8.map(\.asciiLowercased)
            if bytes.count < 4 {
                short.insert(text)
            } else {
                let start = bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
                hidden[start, default: []].append(Hidden(bytes: bytes, isToken: names[text] != nil))
            }
        }
        for start in hidden.keys { hidden[start]?.sort { $0.bytes.count > $1.bytes.count } }
    }

    static func isSecret(_ name: String) -> Bool { SecretMask.isSecret(name.utf8.map(\.asciiLowercased)) }

    /// The name of a push token on the page, such as `token 1`.
    func name(of token: String) -> String { names[token] ?? Redacted(token).description }

    // MARK: Texts

    /// A SIP message with LF as line end, cut after 64 KiB.
    func message(_ text: String) -> String {
        // SIPp's trace has no CR in sent messages, but the search for header fields needs CR.
        var bytes: [UInt8] = []
        for byte in text.utf8.prefix(Self.limit) {
            if byte == UInt8(ascii: "\n"), bytes.last != UInt8(ascii: "\r") { bytes.append(UInt8(ascii: "\r")) }
            bytes.append(byte)
        }
        guard let outline = SIPOutline(bytes.span) else { return plain(text) }
        SecretMask(keepsBodies: true).apply(to: &bytes, outline)
        strike(&bytes)
        return String(decoding: bytes, as: UTF8.self).replacing("\r\n", with: "\n")
    }

    /// Masks log lines, or a request that is not JSON.
    func plain(_ text: String) -> String {
        guard !short.contains(text) else { return "xxx" }
        var bytes = Array(text.utf8.prefix(Self.limit))
        SecretMask.apply(toLines: &bytes)
        strike(&bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Masks a short text of the scenario, in which only known secrets are hidden.
    func label(_ text: String) -> String {
        guard !short.contains(text) else { return "xxx" }
        var bytes = Array(text.utf8.prefix(Self.limit))
        strike(&bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Masks a value; `name` decides whether the value is secret.
    func value(_ text: String, of name: String) -> String {
        Self.isSecret(name) ? crossed(text) : plain(text)
    }

    /// Masks a JSON value, and writes each member on its own line.
    func json(_ value: JSONValue) -> String {
        TerminalText.escapedJSON(String(decoding: masked(value).lines, as: UTF8.self))
    }

    /// Masks a body, which may be JSON.
    func body(_ text: String) -> String {
        guard text.utf8.count <= Self.limit, let value = JSONValue(text: text) else { return plain(text) }
        return json(value)
    }

    static let limit = 65_536

    // MARK: Parts

    private func masked(_ value: JSONValue, isSecret: Bool = false) -> JSONValue {
        switch value {
        case .null, .bool: value
        case .number(let text): isSecret ? .string(crossed(text)) : value
        case .string(let text):
            if isSecret {
                .string(crossed(text))
            } else if let first = text.utf8.first, first == UInt8(ascii: "{") || first == UInt8(ascii: "["),
                let inner = JSONValue(text: text)
            {
                .string(String(decoding: masked(inner).bytes, as: UTF8.self))
            } else {
                .string(plain(text))
            }
        case .array(let elements): .array(elements.map { masked($0, isSecret: isSecret) })
        case .object(let members):
            .object(
                members.map { member in
                    JSONValue.Member(
                        label(member.key), masked(member.value, isSecret: isSecret || Self.isSecret(member.key)))
                })
        }
    }

    /// Replaces each byte by `x`, except the first four characters of a long push token.
    private func crossed(_ text: String) -> String {
        var bytes = Array(text.utf8.prefix(Self.limit))
        Self.cross(&bytes, bytes.indices, isToken: names[text] != nil)
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func cross(_ bytes: inout [UInt8], _ range: Range<Int>, isToken: Bool) {
        let shown = isToken && range.count >= 16 ? 4 : 0
        for index in range.dropFirst(shown) { bytes[index] = UInt8(ascii: "x") }
    }

    /// Hides the known secrets and all API keys.
    private func strike(_ bytes: inout [UInt8]) {
        let lowered = bytes.map(\.asciiLowercased)
        var start: UInt32 = 0
        var free = 0
        for index in lowered.indices {
            start = start << 8 | UInt32(lowered[index])
            let first = index - 3
            guard first >= free else { continue }
            if start == Self.apiKey {
                let end = lowered[first...].firstIndex { !$0.isToken } ?? lowered.endIndex
                guard end - first > 20 else { continue }
                Self.cross(&bytes, first..<end, isToken: false)
                free = end
            } else if let found = hidden[start]?.first(where: { lowered[first...].starts(with: $0.bytes) }) {
                free = first + found.bytes.count
                Self.cross(&bytes, first..<free, isToken: found.isToken)
            }
        }
    }

    /// The first four bytes of an API key: `spd_`.
    private static let apiKey: UInt32 = 0x7370_645f
}
