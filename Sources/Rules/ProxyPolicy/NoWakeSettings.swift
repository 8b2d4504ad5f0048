package import Bytes
package import Registration
import SIPGrammar
package import Settings

/// Settings for calls for which no phone wakes.
package struct NoWakeSettings: SettingsGroup, Equatable {
    package enum Action: String, Hashable, Sendable, CaseIterable {
        /// The caller gets the final response ``NoWakeSettings/status``.
        case answer
        /// The caller gets 302 with the URI ``NoWakeSettings/target``.
        case redirect
        /// The INVITE is sent to ``NoWakeSettings/target`` through the upstream.
        case forward
    }

    package var action = Action.answer
    /// The final status for ``Action/answer``, and for calls that cannot be redirected or forwarded.
    package var status: UInt16 = 480
    package var target: NoWakeTarget?
    /// Whether the caller gets 180 when a provider has accepted a push.
    package var ringsAfterPush = false
    /// Whether the phone's earlier wakes limit how long a call waits for the phone.
    package var usesRecord = false
    /// The settings of single domains and users, by `example.net` or `bob@example.net`.
    package var exceptions: [String: NoWakeSettings] = [:]

    package init() {}

    package static let schema: [Setting<NoWakeSettings>] = [
        .choice(
            "action", \.action,
            "How the daemon treats a call if no phone wakes, or if the called user has no contact. With `answer`, the caller gets the final response in the setting `status`. With `redirect`, a caller behind a trusted peer gets 302 with the URI in the setting `to`, and other callers get the response in the setting `status`. With `forward`, the daemon sends the INVITE through the upstream PBX to the URI in the setting `to`. While the URI of the forward neither rings nor answers, the call still waits for phones."
        ),
        .value(
            "status", \.status, .noWakeStatus,
            "The final response to the caller if `action` is `answer`, or if a redirect or forward is impossible or fails: 404, 408, 410, 480, 486, 500, 503, 600, 603 or 604."
        ),
        .value(
            "to", \.target, NoWakeTarget.settingType, example: "\"sip:vm-{{user}}@pbx.example.net\"",
            "The SIP URI for the actions `redirect` and `forward`, such as a voicemail box. The daemon replaces `{{user}}` by the called user's name. `{{user}}` is not allowed after the @."
        ),
        .bool(
            "ring-after-push", \.ringsAfterPush,
            "Send 180 Ringing to the caller when a push provider has accepted the push. With `false`, the caller hears ringing only when a phone rings."
        ),
        .bool(
            "learn", \.usesRecord,
            "When a phone has woken ten times, let calls wait for this phone only as long as its slowest wakes took (the 99th percentile, at least five seconds). If the last ten accepted pushes did not wake a phone, the daemon still sends pushes, but calls do not wait for the phone until the phone registers again. At a stop, the daemon forgets the wake times that it measured for phones."
        ),
        .variants(
            "for", \.exceptions, atMost: 10_000, exampleName: "bob@example.net", exampleKeys: ["action", "to"],
            "Settings of `call.no-wake` that differ for a domain or a user. Each entry inherits the settings of `call.no-wake`. The entry of a user takes precedence over the entry of a domain."
        ),
    ]

    package func complaints() -> [SettingComplaint] {
        var found: [SettingComplaint] = []
        if action != .answer, target == nil {
            found.append(SettingComplaint("expected a URI for \(action.rawValue)", key: "to"))
        }
        for (name, exception) in exceptions.sorted(by: { $0.key < $1.key }) {
            guard exception.action != .answer, exception.target == nil else { continue }
            found.append(
                SettingComplaint("expected a URI in to for \(exception.action.rawValue) of \(name)", key: "for"))
        }
        return found
    }

    /// The settings for calls to a user.
    package func settings(for aor: AddressOfRecord) -> NoWakeSettings {
        guard !exceptions.isEmpty else { return self }
        return exceptions[aor.description] ?? exceptions[aor.host.string] ?? self
    }

    /// Whether the settings have their defaults: a call gets 480 if no phone wakes.
    package var isUsual: Bool {
        exceptions.isEmpty && action == .answer && status == 480 && !ringsAfterPush && !usesRecord
    }

    /// Whether calls are forwarded for at least one user.
    package var forwards: Bool { action == .forward || exceptions.values.contains { $0.action == .forward } }

    /// Whether, for at least one user, earlier wakes limit how long a call waits for a phone.
    package var learns: Bool { usesRecord || exceptions.values.contains(where: \.usesRecord) }
}

extension SettingType<UInt16> {
    /// The type of the setting for the final status; the status must mean that no phone can be reached.
    fileprivate static let noWakeStatus = SettingType<UInt16>.parsed("status") { text throws(SettingComplaint) in
        let known: [UInt16] = [404, 408, 410, 480, 486, 500, 503, 600, 603, 604]
        guard let status = UInt16(text), known.contains(status) else {
            throw SettingComplaint("expected one of \(known.map { "\($0)" }.joined(separator: ", "))")
        }
        return status
    } print: {
        "\($0)"
    }
}

/// The URI to which calls are redirected or forwarded, in which the called user can be inserted.
package struct NoWakeTarget: Hashable, Sendable {
    /// The parts of the URI before and after the called user; `tail` is empty if the URI does not contain the user.
    private let head, tail: String
    private let hasUser: Bool

    private static let placeholder = "{{user}}"

    /// Parses a URI from the settings; only `sip:` and `sips:` URIs without headers are valid.
    ///
    /// A placeholder for the called user is allowed only in the user part.
    package init?(_ text: String) {
        let parts = text.split(separator: Self.placeholder, omittingEmptySubsequences: false)
        guard parts.count <= 2, let first = parts.first else { return nil }
        head = String(first)
        tail = parts.count == 2 ? String(parts[1]) : ""
        hasUser = parts.count == 2
        let sample = head + (hasUser ? "u" : "") + tail
        guard
            sample.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && !"<>\"\\^`{|}?,".utf8.contains($0) }),
            let uri = SIPURI(ByteString(sample)), uri.scheme == .sip || uri.scheme == .sips,
            uri.isPlain || uri.host.string.hasPrefix("["), uri.password == nil, !uri.host.isEmpty,
            sample.count(where: { $0 == "@" }) <= 1
        else { return nil }
        if hasUser { guard !head.contains("@"), tail.contains("@") else { return nil } }
    }

    /// The URI for a call to the user; the user's name is escaped so that it cannot change other parts of the URI.
    package func uri(for user: ByteString) -> ByteString {
        guard hasUser else { return ByteString(head) }
        var bytes = Array(head.utf8)
        bytes.append(escapingUser: user)
        bytes += tail.utf8
        return ByteString(bytes)
    }

    package static let settingType = SettingType<NoWakeTarget>.parsed("SIP URI") { text throws(SettingComplaint) in
        guard let target = NoWakeTarget(text) else {
            throw SettingComplaint(
                "expected a SIP URI such as sip:vm-{{user}}@pbx.example.net, with {{user}} at most once and before @")
        }
        return target
    } print: {
        $0.description
    }
}

extension NoWakeTarget: CustomStringConvertible {
    package var description: String { hasUser ? head + Self.placeholder + tail : head }
}

extension Array<UInt8> {
    /// Appends a name as the user part of a URI, and escapes each byte that could end the user part.
    package mutating func append(escapingUser name: ByteString) {
        for byte in name.array {
            if byte.isASCIIDigit || byte.isASCIILetter || "-_.!~*'()+".utf8.contains(byte) {
                append(byte)
            } else {
                append(percentEncoded: byte)
            }
        }
    }
}
