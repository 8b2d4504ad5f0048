import PushDelivery
package import SIPGrammar
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
    package mutating func replaceToken(of id: BindingID, with token: ByteString, now: Moment) -> BindingChange? {
        guard let slot = slot(of: id), !token.isEmpty, token.count <= PushParameters.longestValue else { return nil }
        let binding = self[slot]
        guard !binding.marks.contains(.isBusy), pushToken(of: id)?.prid != token,
            let contact = ContactText.replacingToken(in: binding.contact, with: token),
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

extension ContactText {
    /// The same stored value with another token; `nil` when it has none or would be too long.
    static func replacingToken(in text: ByteString, with token: ByteString) -> ByteString? {
        guard let uri = uri(of: text),
            let old = uri.parameters.first(named: "pn-prid") ?? uri.parameters.first(named: "pn-tok")
        else { return nil }
        let end = uri.text.count + 1
        var out: [UInt8] = []
        out.reserveCapacity(text.count + token.count)
        out.append("<")
        out.append(uri.text, 0..<URIText.addressEnd(of: uri.text))
        for parameter in uri.parameters {
            out.append(";")
            out.append(parameter.name)
            if parameter.name == old.name {
                out.append("=")
                out.append(escapingParameter: token)
            } else if let value = parameter.value {
                out.append("=")
                out.append(value)
            }
        }
        if let headers = uri.headers {
            out.append("?")
            out.append(headers)
        }
        out.append(text[end..<text.count])
        return out.count <= longest ? ByteString(copying: out.span) : nil
    }
}
