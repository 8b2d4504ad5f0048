import Bytes
import PushDelivery
import SIPGrammar

/// One Contact of a REGISTER: what it asks for, and what is made of it.
///
/// It is a class because it is looked at many times, and a copy of the value would retain twenty slices of the message.
final class AskedContact {
    let address: NameAddress
    /// Made when there is something to compare with.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The contact, in the form of ``ContactText``.
    let text: ByteString
    /// How many seconds it asks for, before they are clamped. With 0 the binding ends.
    let expires: UInt32
    let triple: PushParameters.Triple
    let push: PushParameters
    let label: DeviceLabel?
    /// Which of its device's flows it is, if flows count.
    let flow: RegistrationFlow?
    /// Why pushes are not used although the contact asks for them; `nil` if they are used or not asked for.
    var notUsed: RegistrationFact.PushNotUsed?
    /// The index of the stored contact that it refreshes.
    var match: Int?

    var isSignOut: Bool { expires == 0 }

    /// The token that the contact names, whether it is used or not.
    var token: PushToken? { push.token }

    /// - Returns: `nil` when its text cannot be kept; the request then gets 400.
    init?(
        _ address: NameAddress, in request: SIPRequest, _ outbound: OutboundSupport, settings: RegistrarSettings,
        limits: ExpiryLimits
    ) {
        guard let text = ContactText.canonical(address) else { return nil }
        let flow = RegistrationFlow(address)
        let counts = outbound == .applies
        let triple = PushParameters.Triple(contact: address)
        self.address = address
        self.flow = counts ? flow : nil
        // What stands in the store is read again as it is, so a number that does not count must not stand there.
        self.text = flow != nil && !counts ? ContactText.withoutFlowNumber(text) : text
        self.triple = triple
        expires = address.expires ?? request.expires ?? limits.standard
        push = PushParameters(triple, settings: settings)
        label = DeviceLabel(contact: address, sources: settings.labelSources)
    }

    /// Whether both are the same contact by its URI.
    ///
    /// Addresses are used again, and a phone that got the private address of a sleeping phone must not end that phone's
    /// push contact. So if there is a token, the Call-ID has to be that of the same client, too. Another token with another
    /// label is another device, whatever its Call-ID is (reading A6).
    func isSameContact(as stored: StoredContact, callID: ByteString) -> Bool {
        guard uri.isEquivalent(to: stored.uri, ignoringPush: true) else { return false }
        let hasOtherToken = token != nil && stored.token != nil && token != stored.token
        if hasOtherToken, let label, let other = stored.label, label != other { return false }
        return !(stored.isPush || hasOtherToken) || stored.callID == callID
    }

    /// Whether the stored contact is another way to the same device.
    func isOtherFlow(than stored: StoredContact) -> Bool {
        guard let flow, let other = stored.flow else { return false }
        return flow.instance == other.instance && flow.number != other.number
    }

    /// Whether a later contact of the same request means the same binding.
    func isRepeated(by later: AskedContact) -> Bool {
        if let flow, let laterFlow = later.flow { return flow == laterFlow }
        if let token, let laterToken = later.token { return token == laterToken }
        return uri.isEquivalent(to: later.uri)
    }
}

extension NameAddress {
    /// The `expires` parameter: a malformed value reads as 3600, as the Expires field does (RFC 3261 section
    /// 10.2.1.1), one beyond 32 bits as the largest number. `nil` when there is none.
    var expires: UInt32? {
        guard let parameter = parameters.first(named: "expires") else { return nil }
        guard let value = parameter.value?.unquoted(), !value.isEmpty, value.allSatisfy(\.isASCIIDigit) else {
            return 3600
        }
        return value.decimal() ?? .max
    }

    /// The `q` parameter in thousandths; 1000 when it is missing or malformed.
    var q: UInt16 { parameters.value(of: "q").flatMap(Self.thousandths) ?? 1000 }

    /// A `qvalue` (RFC 3261 section 25.1): 0 to 1 with up to three digits behind the dot; `nil` for anything else.
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
