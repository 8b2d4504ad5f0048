import Addressing
package import Bytes
package import SIPGrammar
package import Timekeeping

/// What the 200 to a REGISTER says (RFC 3261 section 10.3 step 8).
extension BindingTable {
    /// Appends the Contact, Path, Supported, Require, Feature-Caps and Date rows of the answer to an applied plan.
    ///
    /// Devices that were only reported are left out, since for SIP they are no contacts.
    ///
    /// - Parameters:
    ///   - plan: what was applied.
    ///   - date: the Date row.
    ///   - now: both clocks.
    ///   - out: where the rows go.
    ///   - seal: appends a text that only we can read.
    package func appendOKFields(
        for plan: RegisterPlan, date: AddedField, now: Moment, to out: inout ByteSink,
        seal: (SealedName, inout ByteSink) -> Void
    ) {
        // Nothing has happened since the plan was made when nothing had to be written first.
        let known = plan.persist.isEmpty ? plan.touch?.first : nil
        var slot = known ?? firstSlot(of: plan.aor) ?? Self.noSlot
        while slot != Self.noSlot {
            if isInForce(self[slot], now: now.instant), !self[slot].marks.contains(.isUnreachable) {
                out.append("Contact: ")
                let start = out.count
                appendContact(slot: slot, plan, now: now.instant, to: &out)
                if plan.wantsGRUU, plan.echoed.contains(self[slot].id) {
                    appendGRUUs(slot: slot, plan.aor, contact: start..<out.count, to: &out, seal)
                }
                out.append("\r\n")
            }
            slot = self[slot].next
        }
        if !plan.path.isEmpty {
            for value in plan.path { out.append("Path", value) }
            out.append("Supported: path\r\n")
        }
        if plan.isOutbound { out.append("Require: outbound\r\n") }
        if let seconds = plan.flowTimer {
            out.append("Flow-Timer: ")
            out.append(decimal: seconds)
            out.append("\r\n")
        }
        for (index, value) in plan.featureCaps.enumerated() {
            guard index == 0, let device = plan.announcedPURR else {
                out.append("Feature-Caps", value)
                continue
            }
            out.append("Feature-Caps: ")
            out.append(value)
            out.append(";+sip.pnspurr=\"")
            seal(.purr(device), &out)
            out.append("\"\r\n")
        }
        out.append(date)
    }

    /// The URIs that lead to the device from anywhere (RFC 5627 section 5.2). The instance is looked for in the contact that
    /// has just been written.
    private func appendGRUUs(
        slot: UInt32, _ aor: AddressOfRecord, contact: Range<Int>, to out: inout ByteSink,
        _ seal: (SealedName, inout ByteSink) -> Void
    ) {
        guard let instance = out.withBytes(contact, { GRUU.instance(in: $0) }) ?? nil else { return }
        let place = contact.lowerBound + instance.lowerBound..<contact.lowerBound + instance.upperBound
        GRUU.appendPublic(of: aor, instanceAt: place, to: &out)
        GRUU.appendTemporary(at: aor.host, to: &out) { out in
            seal(.temporaryGRUU(self[slot].id, callID: callIDNumber(at: slot)), &out)
        }
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
