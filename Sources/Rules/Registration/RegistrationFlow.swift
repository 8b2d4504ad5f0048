package import Bytes
package import SIPGrammar

/// An outbound flow from a device to its registrar (RFC 5626): a Contact with `+sip.instance` and `reg-id`.
///
/// Contacts with one instance and different `reg-id` numbers are flows of one device. A new contact replaces the
/// contact with the same instance and `reg-id`, even if URI, token and Call-ID differ.
package struct RegistrationFlow: Hashable, Sendable {
    /// The instance of the device in lower case, without quotes and angle brackets.
    package let instance: ByteString
    /// The value of `reg-id`, from 1 to 2^31 - 1.
    package let number: UInt32

    /// Reads the outbound flow (`reg-id` and instance) of a Contact.
    ///
    /// - Returns: `nil` for a Contact without `+sip.instance` or `reg-id`, and for an instance that many devices can
    ///   have.
    package init?(_ contact: NameAddress) {
        guard let number = contact.parameters.value(of: "reg-id")?.decimal(as: UInt32.self), number > 0,
            number <= UInt32(Int32.max), let instance = contact.instance, !DeviceLabel.isShared(instance)
        else { return nil }
        self.instance = instance
        self.number = number
    }

    func isOfSameDevice(as other: RegistrationFlow) -> Bool { instance == other.instance }
}

/// Whether a REGISTER uses outbound flows (RFC 5626 section 6).
enum OutboundSupport {
    /// The client does not ask for outbound flows, so `reg-id` has no meaning.
    case notAsked
    /// The client supports outbound flows, but a hop between the client and the daemon does not; the REGISTER gets 439.
    case hopLacks
    case applies

    init(_ request: SIPRequest) {
        guard request.supports("outbound") else {
            self = .notAsked
            return
        }
        // The last Path value is from the client's first hop, because each proxy adds its value above the others.
        if let first = request.path.last {
            self = first.uri.parameters.contains("ob") ? .applies : .hopLacks
        } else {
            self = request.frame.count(of: .via) == 1 ? .applies : .hopLacks
        }
    }
}

extension SIPRequest {
    /// Whether Supported or Require lists the extension `tag`, given in lower case.
    package func supports(_ tag: StaticString) -> Bool {
        guard frame.contains(.supported) || frame.contains(.require) else { return false }
        for field in frame.fields where field.name == .supported || field.name == .require {
            if frame.bytes[field.value].withSpan({ $0.lists(tag) }) { return true }
        }
        return false
    }
}

extension Span<UInt8> {
    /// Whether the text is a comma-separated list that contains the word.
    fileprivate func lists(_ word: StaticString) -> Bool {
        var start = 0
        while start < count {
            let end = firstIndex(of: UInt8(ascii: ","), in: start..<count) ?? count
            if equalsIgnoringCase(trimmed(start..<end), word) { return true }
            start = end + 1
        }
        return false
    }
}

extension ContactText {
    /// The stored contact without its `reg-id`; a `reg-id` has no meaning in a REGISTER without outbound flows.
    static func withoutFlowNumber(_ text: ByteString) -> ByteString {
        guard let uri = uri(of: text) else { return text }
        let end = uri.text.count + 2
        var out: [UInt8] = []
        out.append(text, 0..<end)
        for parameter in Parameters(text[end..<text.count]) where !parameter.name.equalsIgnoringCase("reg-id") {
            out.append(parameter)
        }
        return ByteString(copying: out.span)
    }
}
