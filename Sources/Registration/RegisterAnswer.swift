import Bytes
package import SIPGrammar
package import Timekeeping

/// What the 200 to a REGISTER says (RFC 3261 section 10.3 step 8).
extension BindingTable {
    /// The Contact, Path, Supported, Feature-Caps and Date fields of the answer to an applied plan.
    ///
    /// Devices that were only reported are left out, since for SIP they are no contacts.
    package func okFields(for plan: RegisterPlan, date: AddedField, now: Moment) -> [AddedField] {
        var fields: [AddedField] = []
        fields.reserveCapacity(5 + plan.path.count)
        forEachSlot(of: plan.aor) { slot in
            guard isInForce(self[slot], now: now.instant), self[slot].flow != .nowhere else { return }
            fields.append(AddedField("Contact", contactValue(slot: slot, plan, now: now.instant)))
        }
        if !plan.path.isEmpty {
            for value in plan.path { fields.append(AddedField("Path", value)) }
            fields.append(AddedField("Supported", ByteString("path")))
        }
        for value in plan.featureCaps { fields.append(AddedField("Feature-Caps", value)) }
        fields.append(date)
        return fields
    }

    /// The contact with its remaining seconds.
    ///
    /// A device gets its own parameters back as it sent them (rule P7). Of the AOR's other devices it must not learn
    /// the tokens: they would let it wake them.
    private func contactValue(slot: UInt32, _ plan: RegisterPlan, now: Instant) -> ByteString {
        var out: [UInt8] = []
        out.reserveCapacity(Int(self[slot].contactLength) + 24)
        if plan.echoed.contains(self[slot].id) {
            out.append(contentsOf: self[slot].block[self[slot].contactRange])
        } else {
            out.append(self[slot].contact.withoutPushParameters())
        }
        ContactText.removeMark(from: &out)
        out.append(";expires=")
        // A push contact stays when its time is over, so the answer must not say 0, which means that it is gone
        // (reading A8).
        out.append(decimal: max(1, now.seconds(until: self[slot].freshUntil)))
        return ByteString(copying: out.span)
    }
}
