import Addressing
import Bytes
import PushDelivery
import SIPGrammar
import Timekeeping

/// A binding prepared for comparison with the contacts of a REGISTER, with its parsed text, token and label.
///
/// The type is a class, because functions read it many times, as ``AskedContact``.
final class StoredContact {
    let id: DeviceID
    let binding: Binding
    let address: NameAddress
    /// The contact's URI, parsed at the first comparison.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The token in the contact, whether or not the daemon uses it.
    let token: PushToken?
    /// Whether the contact is a push contact, which stays until it is removed by rule R8.
    let isPush: Bool
    let label: DeviceLabel?
    let callID: ByteString
    /// The contact's flow of RFC 5626, if it has one.
    let flow: RegistrationFlow?

    var cseq: UInt32 { binding.cseq }
    var freshUntil: Instant { binding.freshUntil }

    /// All valid bindings of an AOR, prepared for comparison.
    static func all(
        of aor: AddressOfRecord, in table: borrowing BindingTable, settings: RegistrarSettings, now: Instant
    ) -> [StoredContact] {
        table.bindings(for: aor, now: now).compactMap { binding in
            guard let address = ContactText.read(binding.contact) else { return nil }
            return StoredContact(binding, address, isPush: table.isPush(binding), settings: settings)
        }
    }

    /// Whether the two contacts are flows of one device.
    func isFlow(besides other: StoredContact) -> Bool {
        guard let flow, let another = other.flow else { return false }
        return flow.isOfSameDevice(as: another)
    }

    private init(_ binding: Binding, _ address: NameAddress, isPush: Bool, settings: RegistrarSettings) {
        id = binding.id
        self.binding = binding
        self.address = address
        self.isPush = isPush
        // A token that the settings no longer accept still identifies its device.
        token =
            PushProvider(number: binding.provider).flatMap { PushToken($0, in: address.uri) }
            ?? PushParameters(contact: address, settings: settings).token
        label = DeviceLabel(contact: address, sources: settings.labelSources)
        callID = binding.callID
        flow = binding.marks.contains(.isFlow) ? RegistrationFlow(address) : nil
    }
}
