import Bytes
import PushDelivery
import SIPGrammar

/// A Contact of a REGISTER, and the registrar's decision about the Contact.
///
/// ``AskedContact`` is a class, because each copy of a structure would retain twenty slices of the message.
final class AskedContact {
    let address: NameAddress
    /// The contact's URI in a form for comparisons, made at the first comparison.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The contact's text as bindings store it: see ``ContactText``.
    let text: ByteString
    /// The expiry in seconds that the phone asks for, before the limits in the settings; 0 unregisters the contact.
    let expires: UInt32
    let triple: PushParameters.Triple
    let push: PushParameters
    let label: DeviceLabel?
    /// The contact's outbound flow (RFC 5626); `nil` if the REGISTER uses no outbound flows.
    let flow: RegistrationFlow?
    /// Why a contact that asks for pushes gets none; `nil` if the contact gets pushes or asks for none.
    var notUsed: RegistrationFact.PushNotUsed?
    /// The index of the stored contact that this Contact refreshes; `nil` if this Contact refreshes none.
    var match: Int?

    var isSignOut: Bool { expires == 0 }

    /// Whether the contact gets pushes, or would get pushes if its provider were switched on.
    var isKeptForPush: Bool { notUsed == nil || notUsed == .unsupported(.providerOff) }

    /// The push token in the contact, even if the daemon does not use the token.
    var token: PushToken? { push.token }

    /// Creates the contact from a REGISTER and one of its Contact values.
    ///
    /// - Returns: `nil` if the contact cannot be stored, so that the REGISTER gets 400.
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
        // Without outbound flows, `reg-id` has no meaning and is not stored.
        self.text = flow != nil && !counts ? ContactText.withoutFlowNumber(text) : text
        self.triple = triple
        expires = lifetime.asked(byContact: address.expires, byRequest: request.expires)
        push = PushParameters(triple, settings: settings)
        label = DeviceLabel(contact: address, sources: settings.labelSources)
    }

    /// Whether a stored contact with an equivalent URI belongs to the phone that sends the REGISTER.
    ///
    /// A stored contact with a push token must also have the Call-ID of the REGISTER. Otherwise a phone that gets the
    /// private IP address of a sleeping phone could end the sleeping phone's contact. Two contacts with different
    /// tokens and different labels belong to two devices, even with equal Call-IDs (reading A6).
    func isSameContact(as stored: StoredContact, callID: ByteString) -> Bool {
        guard uri.isEquivalent(to: stored.uri, ignoringPush: true) else { return false }
        let hasOtherToken = token != nil && stored.token != nil && token != stored.token
        if hasOtherToken, let label, let other = stored.label, label != other { return false }
        return !(stored.isPush || hasOtherToken) || stored.callID == callID
    }

    /// Whether the stored contact is a different flow of the same device.
    func isOtherFlow(than stored: StoredContact) -> Bool {
        guard let flow, let other = stored.flow else { return false }
        return flow.instance == other.instance && flow.number != other.number
    }

    /// Whether a later Contact of the same REGISTER describes the same binding, and therefore replaces this Contact.
    func isRepeated(by later: AskedContact) -> Bool {
        if let flow, let laterFlow = later.flow { return flow == laterFlow }
        if let token, let laterToken = later.token { return token == laterToken }
        return uri.isEquivalent(to: later.uri)
    }
}

extension NameAddress {
    /// The contact's parameter `expires` in seconds; `nil` if the parameter is missing. A malformed `expires` is
    /// treated as 3600 seconds, as in the Expires field (RFC 3261 section 10.2.1.1). An `expires` above 32 bits is
    /// treated as the largest 32-bit number.
    var expires: UInt32? {
        guard let parameter = parameters.first(named: "expires") else { return nil }
        guard let value = parameter.value?.unquoted(), !value.isEmpty, value.allSatisfy(\.isASCIIDigit) else {
            return 3600
        }
        return value.decimal() ?? .max
    }

    /// The contact's parameter `q` in thousandths; 1000 if the parameter is missing or malformed.
    var q: UInt16 { parameters.value(of: "q").flatMap(Self.thousandths) ?? 1000 }

    /// Parses a `qvalue` (RFC 3261 section 25.1), from 0 to 1 with up to three decimals, and returns thousandths; `nil`
    /// if malformed.
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
