import Addressing
import Bytes
import HEP
import SIPGrammar

/// Decides which messages and pushes a trace contains: by a share of the Call-IDs, and by users.
///
/// A message of a selected user selects its Call-ID, so that a trace contains all messages of a call.
struct TraceSelection {
    private struct User {
        let name: [UInt8]
        /// The domain of the selected user in lower case; `nil` for a user in any domain.
        let domain: [UInt8]?
    }

    private let users: [User]
    private let sample: UInt64
    /// The hashes of Call-IDs, for calls whose users the traces select. A new hash overwrites an earlier hash in its
    /// slot, so the table's size is fixed.
    private var calls: [UInt64] = []

    private static let remembered = 4096

    init(users: [String], sample: Int = 100) {
        self.users = users.map { text in
            let bare = text.hasPrefix("sip:") ? String(text.dropFirst(4)) : text
            guard let at = bare.lastIndex(of: "@") else { return User(name: Array(bare.utf8), domain: nil) }
            return User(
                name: Array(bare[..<at].utf8), domain: Array(bare[bare.index(after: at)...].lowercased().utf8))
        }
        self.sample = UInt64(min(max(sample, 1), 100))
        if !users.isEmpty { calls = [UInt64](repeating: 0, count: Self.remembered) }
    }

    /// Whether the trace contains the given message.
    mutating func wants(_ bytes: Span<UInt8>, _ outline: SIPOutline) -> Bool {
        if sample == 100, users.isEmpty { return true }
        let call = outline.callID(of: bytes).map { Self.hash(bytes.extracting($0)) }
        guard sample == 100 || (call ?? 0) % 100 < sample else { return false }
        guard !users.isEmpty else { return true }
        if let call, calls[Self.place(call)] == call { return true }
        guard names(bytes, outline) else { return false }
        if let call { calls[Self.place(call)] = call }
        return true
    }

    /// Whether the trace contains a push for the given call, or an event of the given user.
    func wants(callID: ByteString, user: ByteString = .empty, host: ByteString = .empty) -> Bool {
        if sample == 100, users.isEmpty { return true }
        let call = callID.withSpan { Self.hash($0) }
        guard sample == 100 || call % 100 < sample else { return false }
        guard !users.isEmpty else { return true }
        if !callID.isEmpty, calls[Self.place(call)] == call { return true }
        guard !user.isEmpty else { return false }
        return user.withSpan { name in
            host.withSpan { host in
                isSelected(name, 0..<name.count, host, 0..<host.count)
            }
        }
    }

    private static func place(_ call: UInt64) -> Int { Int(truncatingIfNeeded: call) & (remembered - 1) }

    private static func hash(_ callID: Span<UInt8>) -> UInt64 {
        var hash = FNV1a()
        hash.mix(ByteString(copying: callID))
        return max(hash.value, 1)
    }

    /// Whether the Request-URI, From, To or P-Asserted-Identity names a selected user.
    private func names(_ bytes: Span<UInt8>, _ outline: SIPOutline) -> Bool {
        if names(bytes, outline.startLine) { return true }
        for field in outline.fields {
            let isParty =
                bytes.equalsIgnoringCase(field.name, "from") || bytes.equalsIgnoringCase(field.name, "f")
                || bytes.equalsIgnoringCase(field.name, "to") || bytes.equalsIgnoringCase(field.name, "t")
                || bytes.equalsIgnoringCase(field.name, "p-asserted-identity")
            if isParty, names(bytes, field.value) { return true }
        }
        return false
    }

    /// Whether a URI in the range has the user part of a selected user.
    private func names(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        while index + 4 <= range.upperBound {
            if bytes.equalsIgnoringCase(index..<index + 4, "sip:")
                || bytes.equalsIgnoringCase(index..<index + 4, "tel:")
            {
                return namesUser(bytes, index + 4..<range.upperBound)
            }
            if index + 5 <= range.upperBound, bytes.equalsIgnoringCase(index..<index + 5, "sips:") {
                return namesUser(bytes, index + 5..<range.upperBound)
            }
            index += 1
        }
        return false
    }

    private func namesUser(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        var end = range.lowerBound
        while end < range.upperBound, !Self.endsURI(bytes[end]), bytes[end] != UInt8(ascii: "@") { end += 1 }
        let name = range.lowerBound..<end
        guard end < range.upperBound, bytes[end] == UInt8(ascii: "@") else {
            return isSelected(bytes, name, bytes, end..<end)
        }
        var hostEnd = end + 1
        while hostEnd < range.upperBound, !Self.endsURI(bytes[hostEnd]), bytes[hostEnd] != UInt8(ascii: ":") {
            hostEnd += 1
        }
        return isSelected(bytes, name, bytes, end + 1..<hostEnd)
    }

    private static func endsURI(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: ">") || byte == UInt8(ascii: ";") || byte == UInt8(ascii: "?") || byte.isLinearSpace
    }

    private func isSelected(
        _ bytes: Span<UInt8>, _ name: Range<Int>, _ hosts: Span<UInt8>, _ host: Range<Int>
    ) -> Bool {
        users.contains { user in
            guard Self.equals(bytes, name, user.name, ignoringCase: false) else { return false }
            guard let domain = user.domain else { return true }
            return host.isEmpty || Self.equals(hosts, host, domain, ignoringCase: true)
        }
    }

    private static func equals(
        _ bytes: Span<UInt8>, _ range: Range<Int>, _ text: [UInt8], ignoringCase: Bool
    ) -> Bool {
        guard range.count == text.count else { return false }
        for index in range {
            let byte = ignoringCase ? bytes[index].asciiLowercased : bytes[index]
            if byte != text[index - range.lowerBound] { return false }
        }
        return true
    }
}
