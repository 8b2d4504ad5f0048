import Addressing
import Bytes
package import PushDelivery
import SIPGrammar
import Timekeeping

/// A binding for comparisons with the contacts of a REGISTER, with parsed text, token and label.
///
/// ``StoredContact`` is a class, because each copy of a structure would retain many slices.
final class StoredContact {
    let id: DeviceID
    let binding: Binding
    let address: NameAddress
    /// The contact's URI in a form for comparisons, made at the first comparison.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The push token in the contact, even if the daemon does not use the token.
    let token: PushToken?
    /// Whether a push can wake the device, so that the contact stays until rule R8 removes it.
    let isPush: Bool
    /// Whether the commit of the binding's row has failed, so that the store may delete the row: see
    /// ``BindingTable/unconfirmed``.
    let isUnconfirmed: Bool
    let label: DeviceLabel?
    let callID: ByteString
    /// The flow of the contact by RFC 5626; `nil` if the contact has no such flow.
    let flow: RegistrationFlow?

    var cseq: UInt32 { binding.cseq }
    var freshUntil: Instant { binding.freshUntil }

    /// All valid bindings of an AOR, for comparisons with the contacts of a REGISTER.
    static func all(
        of aor: AddressOfRecord, in table: borrowing BindingTable, settings: RegistrarSettings, now: Instant
    ) -> [StoredContact] {
        table.bindings(for: aor, now: now).compactMap { binding in
            guard let address = ContactText.read(binding.contact) else { return nil }
            return StoredContact(
                binding, address, isPush: table.isPush(binding), isUnconfirmed: table.unconfirmed.contains(binding.id),
                settings: settings)
        }
    }

    /// Whether the stored contact and `other` are different flows of one device.
    func isFlow(besides other: StoredContact) -> Bool {
        guard let flow, let another = other.flow else { return false }
        return flow.isOfSameDevice(as: another)
    }

    private init(
        _ binding: Binding, _ address: NameAddress, isPush: Bool, isUnconfirmed: Bool, settings: RegistrarSettings
    ) {
        id = binding.id
        self.isUnconfirmed = isUnconfirmed
        self.binding = binding
        self.address = address
        self.isPush = isPush
        // A token that the settings no longer accept is read too, because the token still identifies its device.
        token =
            PushProvider(number: binding.provider).flatMap { PushToken($0, in: address.uri) }
            ?? PushParameters(contact: address, settings: settings).token
        label = DeviceLabel(contact: address, sources: settings.labelSources)
        callID = binding.callID
        flow = binding.marks.contains(.isFlow) ? RegistrationFlow(address) : nil
    }
}

extension StoredBinding {
    /// The push token in the row, if a push can wake the device.
    package var pushToken: PushToken? {
        guard isPush else { return nil }
        if let summary = ContactSummary(contact) { return summary.token }
        guard let address = ContactText.read(contact),
            let name = PushParameters.Triple(contact: address).provider, let provider = PushProvider(named: name)
        else { return nil }
        return PushToken(provider, in: address.uri)
    }
}

extension PushAcceptance {
    /// The push servers that phones chose for stored contacts. Contacts of a provider that is switched off count too.
    func chosenHosts(of contacts: [StoredContact]) -> Set<String> {
        Set(contacts.filter { $0.binding.provider != 0 }.compactMap { $0.token.flatMap(chosenHost) })
    }
}
