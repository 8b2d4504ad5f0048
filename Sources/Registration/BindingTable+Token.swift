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
        let binding = self[slot]
        guard !binding.marks.contains(.isBusy), let old = pushToken(of: id), old.prid != token,
            let contact = ContactText.replacingPushParameters(
                in: binding.contact, with: PushToken(provider: old.provider, param: old.param, prid: token)),
            let changed = Binding(
                id: id,
                Binding.Content(
                    aor: binding.aor, contact: contact, callID: binding.callID, path: binding.path, flow: binding.flow,
                    cseq: binding.cseq, granted: binding.granted, freshUntil: binding.freshUntil,
                    registeredAt: binding.registeredAt, q: binding.q, provider: binding.provider, marks: binding.marks))
        else { return nil }
        replace(slot: slot, with: changed)
        return stored(id, now: now).map(BindingChange.upsert)
    }
}
