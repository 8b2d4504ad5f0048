package import Addressing
package import Bytes
import PushDelivery
package import Timekeeping

extension BindingTable {
    /// Replaces a device's push token because its provider asked for it (FCM's canonical ids). The device keeps its id
    /// and all its other values.
    ///
    /// - Parameters:
    ///   - id: the device.
    ///   - token: the new `pn-prid`, decoded.
    ///   - now: the time for the dates in the store.
    /// - Returns: the row to write. Returns `nil` if the device is gone, its REGISTER is being persisted, it already
    ///   has that token, or the contact would become too long.
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
