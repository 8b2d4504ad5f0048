import Bytes
import PushDelivery
import Registration
import SIPGrammar

/// What a sender may ask of other people's phones (T9.11, T9.12, T9.15).
enum RequestRules {
    /// How a request is refused.
    struct Breach {
        let refusal: Refusal
        let status: Status
        /// For the sender, as a Warning.
        let warning: String

        /// It makes no sense without a dialog (RFC 3261 section 15.1.2, RFC 3262 section 3, RFC 3311 section 5.2, RFC 6086
        /// section 4.2.2).
        static let needsDialog = Breach(
            refusal: .needsDialog, status: .callDoesNotExist, warning: "This method needs a dialog: To has no tag")
        static let needsTrust = Breach(
            refusal: .needsTrust, status: .forbidden,
            warning: "Only a trusted peer may send this method outside a dialog")
        static let command = Breach(
            refusal: .command, status: .forbidden, warning: "Only a trusted peer may send a NOTIFY of this event")
        static let otherName = Breach(
            refusal: .otherName, status: .forbidden, warning: "From is not the one that began this dialog")
    }

    /// A request without a To tag, as its method and its sender decide (T9.11, T9.12).
    static func outsideDialogs(_ method: Method, fromTrusted: Bool) -> Breach? {
        switch method {
        case .invite, .message, .options, .subscribe, .publish: nil
        case .bye, .prack, .update, .info: .needsDialog
        // A NOTIFY that nobody has subscribed to reboots phones or lets them answer; a REFER lets them call.
        case .notify, .refer, .register, .ack, .cancel, .other: fromTrusted ? nil : .needsTrust
        }
    }

    /// A request of a phone inside a dialog (T9.15). Some phones take `talk`, `hold`, `check-sync` and the like there, without
    /// having subscribed: whoever rings would answer the call itself.
    static func insideDialogs(_ request: SIPRequest) -> Breach? {
        guard request.method == .notify else { return nil }
        let values = request.frame.values(of: .event)
        return !values.isEmpty && values.allSatisfy(isReport) ? nil : .command
    }

    /// Whether an Event tells of something, and orders nothing: of IANA's event packages those that phones serve.
    private static func isReport(_ value: ByteString) -> Bool {
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        var name = value[0..<end].trimmed()
        // Who watches it (RFC 3857) tells no less.
        let suffix = name.count - ".winfo".utf8.count
        if suffix > 0, name[suffix..<name.count].equalsIgnoringCase(".winfo") { name = name[0..<suffix] }
        return reports.contains { name.equalsIgnoringCase($0) }
    }

    private static let reports: [StaticString] = [
        "conference", "dialog", "kpml", "message-summary", "poc-settings", "presence", "refer", "reg", "vq-rtcpxr",
        "xcap-diff",
    ]
}
