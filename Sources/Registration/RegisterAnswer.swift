package import Bytes
package import SIPGrammar
package import Timekeeping

/// What the 200 to a REGISTER says (RFC 3261 section 10.3 step 8).
extension BindingTable {
    /// Appends the Contact, Path, Supported, Feature-Caps and Date rows of the answer to an applied plan.
    ///
    /// Devices that were only reported are left out, since for SIP they are no contacts.
    package func appendOKFields(for plan: RegisterPlan, date: AddedField, now: Moment, to out: inout ByteSink) {
        // Nothing has happened since the plan was made when nothing had to be written first.
        let known = plan.persist.isEmpty ? plan.touch?.first : nil
        var slot = known ?? firstSlot(of: plan.aor) ?? Self.noSlot
        while slot != Self.noSlot {
            if isInForce(self[slot], now: now.instant), !self[slot].marks.contains(.isUnreachable) {
                out.append("Contact: ")
                appendContact(slot: slot, plan, now: now.instant, to: &out)
                out.append("\r\n")
            }
            slot = self[slot].next
        }
        if !plan.path.isEmpty {
            for value in plan.path { out.append("Path", value) }
            out.append("Supported: path\r\n")
        }
        for value in plan.featureCaps { out.append("Feature-Caps", value) }
        out.append(date)
    }

    /// The contact with its remaining seconds.
    ///
    /// A device gets its own parameters back as it sent them (rule P7). Of the AOR's other devices it must not learn
    /// the tokens: they would let it wake them.
    private func appendContact(slot: UInt32, _ plan: RegisterPlan, now: Instant, to out: inout ByteSink) {
        let isEchoed = plan.echoed.contains(self[slot].id)
        if self[slot].marks.contains(.hasLabel) {
            let contact = binding(at: slot).contact
            var text = (isEchoed ? contact : contact.withoutPushParameters()).array
            ContactText.removeMark(from: &text)
            out.append(text.span)
        } else if isEchoed {
            _ = allContactParts(at: slot) { part in
                out.append(part)
                return true
            }
        } else {
            out.append(binding(at: slot).contact.withoutPushParameters())
        }
        out.append(";expires=")
        // A push contact stays when its time is over, so the answer must not say 0, which means that it is gone
        // (reading A8).
        out.append(decimal: max(1, now.seconds(until: self[slot].freshUntil)))
    }
}
