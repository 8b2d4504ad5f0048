import Bytes
package import SIPGrammar
package import Settings

/// Settings for requests outside dialogs to sleeping phones, except INVITE; most of these requests are MESSAGEs.
package struct MessageSettings: SettingsGroup {
    /// The methods of requests that wake a phone; requests with other methods are sent only to reachable phones.
    package var methods = ["MESSAGE"]
    package var wait: Duration = .seconds(20)
    package var store = false
    package var maximumCount = 100
    package var maximumBytes = 262_144
    package var maximumAge: Duration = .seconds(604_800)
    package var totalBytes = 67_108_864
    package var showsWords = true

    package init() {}

    package static let schema: [Setting<MessageSettings>] = [
        .list(
            "methods", of: .waitingMethod, \.methods,
            "The methods besides INVITE whose requests outside dialogs wake a sleeping phone by a push. The daemon holds a request with one of these methods until the phone registers. Outside dialogs, requests of all other methods wake no phone."
        ),
        .duration(
            "wait", in: .seconds(1) ... .seconds(25), \.wait,
            "How long a request with a method in `messages.methods` waits for a phone before its sender gets 480. `wait` must be less than 32 s, because the transaction of the sender times out after 32 s."
        ),
        .bool(
            "store", \.store,
            "Store a MESSAGE for a sleeping phone. The sender gets 202 when the message is on the disk, and the phone gets the message when it registers, even days later. With `false`, the daemon stores no MESSAGE, and the sender gets the phone's response, or 480 after the time in `messages.wait`."
        ),
        .integer(
            "max-count", in: 1...10_000, \.maximumCount,
            "The maximum number of stored messages for one user. One sender may use half of `max-count`. A MESSAGE that exceeds the limit gets 480."
        ),
        .integer(
            "max-bytes", in: 65_536...67_108_864, \.maximumBytes,
            "The maximum size in bytes of the stored messages for one user. One sender may use half of `max-bytes`."),
        .duration(
            "max-age", in: .seconds(60) ... .seconds(2_419_200), \.maximumAge,
            "How long the daemon keeps a stored message. If the MESSAGE has a shorter time in `Expires`, the daemon keeps the MESSAGE only for this shorter time."
        ),
        .integer(
            "max-total-bytes", in: 1_048_576...17_179_869_184, \.totalBytes,
            "The maximum size in bytes of all stored messages. One sender may use a sixteenth of `max-total-bytes`. The daemon also keeps stored messages in memory."
        ),
        .bool(
            "show-words", \.showsWords,
            "Put the sender's name and the text of a plain message into pushes, where the provider can read them. With `false`, the push only says that a new message has arrived."
        ),
    ]

    package func wakes(for method: Method) -> Bool {
        var name: [UInt8] = []
        method.append(to: &name)
        return methods.contains { $0.utf8.elementsEqual(name) }
    }
}

extension SettingType<String> {
    /// The type of the setting for the methods of waiting requests: methods that are allowed outside dialogs and start
    /// no call.
    fileprivate static let waitingMethod = SettingType<String>.checked("method") { text throws(SettingComplaint) in
        switch Method(ByteString(text)) {
        case .message, .notify, .refer, .subscribe, .options, .info, .publish: break
        case .invite, .ack, .bye, .cancel, .register, .prack, .update, .other:
            throw SettingComplaint("expected MESSAGE, NOTIFY, REFER, SUBSCRIBE, OPTIONS, INFO or PUBLISH")
        }
    }
}
