import Addressing
import Bytes
import PushDelivery
import SIPGrammar
import Timekeeping

/// A binding prepared for the matching rules, with its parsed text, token and label.
///
/// This is a class, for the same reason as ``AskedContact``.
final class StoredContact {
    let id: DeviceID
    let binding: Binding
    let address: NameAddress
    /// The contact's URI, parsed at the first comparison.
    private(set) lazy var uri = ComparableURI(address.uri)
    /// The token in the contact, whether it is used or not.
    let token: PushToken?
    /// Whether the contact is a push contact, which stays until rule R8 ends it.
    let isPush: Bool
    let label: DeviceLabel?
    let callID: ByteString
    /// The device's flow.
    let flow: RegistrationFlow?

    var cseq: UInt32 { binding.cseq }
    var freshUntil: Instant { binding.freshUntil }

    /// The valid bindings of an AOR.
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
        // A token that no app of ours accepts any more still identifies its device.
        token =
            PushProvider(number: binding.provider).flatMap { PushToken($0, in: address.uri) }
            ?? PushParameters(contact: address, settings: settings).token
        label = DeviceLabel(contact: address, sources: settings.labelSources)
        callID = binding.callID
        flow = binding.marks.contains(.isFlow) ? RegistrationFlow(address) : nil
    }
}
