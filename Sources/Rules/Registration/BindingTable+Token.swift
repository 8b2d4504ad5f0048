package import Addressing
package import Bytes
import PushDelivery
package import Timekeeping

extension BindingTable {
    /// Puts another push token in the place of a device's, as its provider wishes (FCM's canonical ids). The device keeps
    /// its number and everything else.
    ///
    /// - Parameters:
    ///   - id: the device.
    ///   - token: the new `pn-prid`, decoded.
    ///   - now: for the row's dates.
    /// - Returns: the row to write; `nil` when the device is gone, a REGISTER of it is just being written, it has that
    ///   token already, or the contact would grow too long.
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
