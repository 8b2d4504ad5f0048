package import Addressing
package import Bytes
import PushDelivery
package import Timekeeping

extension BindingTable {
    /// Replaces a device's push token, because the provider returned a new token (FCM's canonical id). The device keeps
    /// all values of its binding except the push token.
    ///
    /// - Parameters:
    ///   - id: the device with the replaced push token.
    ///   - token: the new `pn-prid`, not percent-encoded.
    ///   - now: the present time, for the dates in the store.
    /// - Returns: the row to write; `nil` if the device is gone or already has the token, if its REGISTER is being
    ///   stored, or if the contact would be too long.
    package mutating func replaceToken(of id: DeviceID, with token: ByteString, now: Moment) -> BindingChange? {
        guard let slot = slot(of: id), !token.isEmpty, token.count <= PushParameters.longestValue else { return nil }
        let binding = binding(at: slot)
        guard !binding.marks.contains(.isBusy), let old = pushToken(of: id), old.prid != token,
            let contact = ContactText.replacingPushParameters(
                in: binding.contact, with: PushToken(provider: old.provider, param: old.param, prid: token)),
            let changed = makeRecord(id, binding.content(with: contact))
        else { return nil }
        replace(slot: slot, with: changed)
        return stored(id, now: now).map(BindingChange.upsert)
    }
}
