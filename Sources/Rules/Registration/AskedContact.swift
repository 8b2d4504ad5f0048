import Bytes
import PushDelivery
import SIPGrammar

/// One Contact of a REGISTER, and the decision about it.
///
/// The type is a class, because functions read it many times, and a copy of a value would retain twenty slices of the
/// message.
final class AskedContact {
    let address: NameAddress
    /// The contact's URI, parsed at the first comparison.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The contact, in the form of ``ContactText``.
    let text: ByteString
    /// The requested expiry in seconds, before the limits of the settings apply; 0 unregisters the contact.
    let expires: UInt32
    let triple: PushParameters.Triple
    let push: PushParameters
    let label: DeviceLabel?
    /// The contact's flow, if the REGISTER uses outbound flows (RFC 5626).
    let flow: RegistrationFlow?
    /// Why the daemon sends no pushes although the contact asks for them; `nil` if it does, or if the contact does not
    /// ask.
    var notUsed: RegistrationFact.PushNotUsed?
    /// The index of the stored contact that this contact refreshes.
    var match: Int?

    var isSignOut: Bool { expires == 0 }

    /// The token in the contact, whether or not the daemon uses it.
    var token: PushToken? { push.token }

    /// Creates the contact from a REGISTER.
    ///
    /// - Returns: `nil` if the contact cannot be stored, so that the request gets 400.
    init?(
        _ address: NameAddress, in request: SIPRequest, _ outbound: OutboundSupport, settings: RegistrarSettings,
        lifetime: ContactLifetime
    ) {
        guard let text = ContactText.canonical(address) else { return nil }
        let flow = RegistrationFlow(address)
        let counts = outbound == .applies
        let triple = PushParameters.Triple(contact: address)
        self.address = address
        self.flow = counts ? flow : nil
        // The stored contact has no `reg-id` unless outbound flows apply.
        self.text = flow != nil && !counts ? ContactText.withoutFlowNumber(text) : text
        self.triple = triple
        expires = lifetime.asked(byContact: address.expires, byRequest: request.expires)
        push = PushParameters(triple, settings: settings)
        label = DeviceLabel(contact: address, sources: settings.labelSources)
    }

    /// Whether a stored contact with an equivalent URI is this contact.
    ///
    /// Private addresses are reused. A phone that got the address of a sleeping phone must not end that phone's push
    /// contact. Therefore, if the stored contact has a token, the Call-ID must be the same too. A contact with another
    /// token and another label is another device, with any Call-ID (reading A6).
    func isSameContact(as stored: StoredContact, callID: ByteString) -> Bool {
        guard uri.isEquivalent(to: stored.uri, ignoringPush: true) else { return false }
        let hasOtherToken = token != nil && stored.token != nil && token != stored.token
        if hasOtherToken, let label, let other = stored.label, label != other { return false }
        return !(stored.isPush || hasOtherToken) || stored.callID == callID
    }

    /// Whether the stored contact is another flow to the device of this contact.
    func isOtherFlow(than stored: StoredContact) -> Bool {
        guard let flow, let other = stored.flow else { return false }
        return flow.instance == other.instance && flow.number != other.number
    }

    /// Whether a later contact of the same request describes the same binding.
    func isRepeated(by later: AskedContact) -> Bool {
        if let flow, let laterFlow = later.flow { return flow == laterFlow }
        if let token, let laterToken = later.token { return token == laterToken }
        return uri.isEquivalent(to: later.uri)
    }
}

extension NameAddress {
    /// The `expires` parameter in seconds; `nil` if it is missing. A malformed value counts as 3600, as in the Expires
    /// field (RFC 3261 section 10.2.1.1). A value beyond 32 bits counts as the largest number.
    var expires: UInt32? {
        guard let parameter = parameters.first(named: "expires") else { return nil }
        guard let value = parameter.value?.unquoted(), !value.isEmpty, value.allSatisfy(\.isASCIIDigit) else {
            return 3600
        }
        return value.decimal() ?? .max
    }

    /// The `q` parameter in thousandths; 1000 if it is missing or malformed.
    var q: UInt16 { parameters.value(of: "q").flatMap(Self.thousandths) ?? 1000 }

    /// The thousandths of a `qvalue` (RFC 3261 section 25.1): 0 to 1 with up to three decimals. Returns `nil` for any
    /// other text.
    static func thousandths(of value: ByteString) -> UInt16? {
        guard !value.isEmpty, value.count <= 5 else { return nil }
        let dot = value.firstIndex(of: UInt8(ascii: ".")) ?? value.count
        var digits = value[0..<dot].array
        guard digits.count == 1 else { return nil }
        if dot < value.count { digits += value[dot + 1..<value.count].array }
        while digits.count < 4 { digits.append(UInt8(ascii: "0")) }
        guard let thousandths = ByteString(digits).decimal(as: UInt16.self), thousandths <= 1000 else { return nil }
        return thousandths
    }

    func marks(needsReview: Bool, isFlow: Bool) -> Binding.Marks {
        var marks: Binding.Marks = isFlow ? [.isFlow] : []
        if needsReview { marks.insert(.needsReview) }
        if parameters.contains("+sip.pnsreg") { marks.insert(.refreshesItself) }
        return marks
    }
}
