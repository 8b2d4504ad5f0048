import Bytes
package import PushDelivery
import Registration
package import SIPGrammar

/// The rules for requests from one user's phone to another user's phone (T9.11, T9.12, T9.15).
package enum RequestRules {
    /// The refusal of a request that breaks a rule, with the status and text of the response.
    package struct Breach {
        package let refusal: Refusal
        package let status: Status
        /// The text of the Warning header field in the response.
        package let warning: String

        /// The refusal of a method that needs a dialog (RFC 3261 section 15.1.2, RFC 3262 section 3, RFC 3311 section
        /// 5.2, RFC 6086 section 4.2.2).
        package static let needsDialog = Breach(
            refusal: .needsDialog, status: .callDoesNotExist, warning: "This method needs a dialog: To has no tag")
        package static let needsTrust = Breach(
            refusal: .needsTrust, status: .forbidden,
            warning: "Only a trusted peer may send this method outside a dialog")
        package static let command = Breach(
            refusal: .command, status: .forbidden, warning: "Only a trusted peer may send a NOTIFY of this event")
        package static let otherName = Breach(
            refusal: .otherName, status: .forbidden, warning: "From differs from the request that began this dialog")
    }

    /// The rule that forbids a request without To tag, by its method and sender (T9.11, T9.12); `nil` for an allowed
    /// request.
    package static func outsideDialogs(_ method: Method, fromTrusted: Bool) -> Breach? {
        switch method {
        case .invite, .message, .options, .subscribe, .publish: nil
        case .bye, .prack, .update, .info: .needsDialog
        // A NOTIFY without subscription can reboot a phone, or make the phone answer a call. A REFER makes a phone
        // start a call.
        case .notify, .refer, .register, .ack, .cancel, .other: fromTrusted ? nil : .needsTrust
        }
    }

    /// The rule that forbids a phone's request inside a dialog (T9.15); `nil` for an allowed request.
    ///
    /// Some phones obey a NOTIFY with the event `talk`, `hold` or `check-sync` without a subscription, so a caller
    /// could make a ringing phone answer.
    package static func insideDialogs(_ request: SIPRequest) -> Breach? {
        guard request.method == .notify else { return nil }
        let values = request.frame.values(of: .event)
        return !values.isEmpty && values.allSatisfy(isReport) ? nil : .command
    }

    /// Whether an event only reports a state. Other events can control the phone.
    ///
    /// The list `reports` has the IANA event packages that phones support.
    private static func isReport(_ value: ByteString) -> Bool {
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        var name = value[0..<end].trimmed()
        // An event with the suffix `.winfo` only reports the subscribers of an event, and gives the phone no order (RFC
        // 3857).
        let suffix = name.count - ".winfo".utf8.count
        if suffix > 0, name[suffix..<name.count].equalsIgnoringCase(".winfo") { name = name[0..<suffix] }
        return reports.contains { name.equalsIgnoringCase($0) }
    }

    private static let reports: [StaticString] = [
        "conference", "dialog", "kpml", "message-summary", "poc-settings", "presence", "refer", "reg", "vq-rtcpxr",
        "xcap-diff",
    ]
}
