import Bytes
import SIPGrammar
package import Settings

/// Requests outside dialogs, other than calls, for phones that sleep: MESSAGE above all.
package struct MessageSettings: SettingsGroup {
    /// The methods that wake a phone. Others go to phones that can be reached.
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
            "Which requests outside dialogs wake a phone by a push and wait for it. Others go to phones that can be reached "
                + "now."),
        .duration(
            "wait", in: .seconds(1) ... .seconds(25), \.wait,
            "How long such a request waits for a phone before its sender gets 480: less than the 32 s after which a sender "
                + "gives up."),
        .bool(
            "store", \.store,
            "Keep a MESSAGE for a phone that sleeps: its sender gets 202 when it is on the disk, and the phone gets it when "
                + "it registers, be it days later. Without it the sender hears within wait whether the phone has it."),
        .integer(
            "max-count", in: 1...10_000, \.maximumCount,
            "Messages that wait for one user, half of them from one sender. One more gets 480."),
        .integer(
            "max-bytes", in: 65_536...67_108_864, \.maximumBytes,
            "Bytes of the messages that wait for one user, half of them from one sender."),
        .duration(
            "max-age", in: .seconds(60) ... .seconds(2_419_200), \.maximumAge,
            "How long a stored message is kept. Its own Expires lowers it."),
        .integer(
            "max-total-bytes", in: 1_048_576...17_179_869_184, \.totalBytes,
            "Bytes of all messages that wait, a sixteenth of them from one sender; they are in memory as well."),
        .bool(
            "show-words", \.showsWords,
            "Whether pushes carry the sender's name and the words of a plain text, which the provider can read. Without it "
                + "they only say that there is a message."),
    ]

    func wakes(for method: Method) -> Bool {
        var name: [UInt8] = []
        method.append(to: &name)
        return methods.contains { $0.utf8.elementsEqual(name) }
    }
}

extension SettingType<String> {
    /// A method that starts no call and belongs to no dialog.
    fileprivate static let waitingMethod = SettingType<String>.parsed("method") { text throws(SettingComplaint) in
        switch Method(ByteString(text)) {
        case .message, .notify, .refer, .subscribe, .options, .info, .publish: return text
        case .invite, .ack, .bye, .cancel, .register, .prack, .update, .other:
            throw SettingComplaint("expected MESSAGE, NOTIFY, REFER, SUBSCRIBE, OPTIONS, INFO or PUBLISH")
        }
    } print: {
        $0
    }
}
