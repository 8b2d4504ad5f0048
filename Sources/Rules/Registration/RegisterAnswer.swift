import Addressing
package import Bytes
import Collections
package import SIPGrammar
package import Timekeeping

/// The values in the 200 to a REGISTER, without the contacts.
package struct RegisterAnnouncement: Sendable {
    /// The bindings whose push parameters the 200 repeats (rule P7); the 200 omits the push parameters of all other
    /// bindings.
    var echoed = ShortList<DeviceID>()
    /// The Path values of the REGISTER; the 200 repeats the values (RFC 3327 section 5.3).
    var path: [ByteString] = []
    private(set) var featureCaps: [ByteString] = []
    /// Whether the REGISTER has registered an outbound flow (RFC 5626).
    private(set) var isOutbound = false
    /// The interval in seconds at which the phone must send something on its flow; `nil` for a 200 without Flow-Timer.
    package private(set) var flowTimer: UInt32?
    /// The binding whose `pn-purr` the 200 contains: see ``SealedName/purr(_:answer:)``.
    private(set) var purr: DeviceID?
    /// Whether the client supports GRUUs, so that the 200 contains its contacts' GRUUs (RFC 5627).
    var wantsGRUU = false
    /// The nonce for the phone's next REGISTER; `nil` if the phone continues to use its present nonce.
    var nextNonce: ByteString?

    /// Notes that a flow of RFC 5626 was registered. A phone behind an edge proxy gets no Flow-Timer, because its
    /// keep-alives reach only the edge proxy.
    mutating func addFlow(_ settings: RegistrarSettings) {
        isOutbound = true
        if path.isEmpty { flowTimer = settings.flowTimerSeconds }
    }

    /// Adds the Feature-Caps values for a contact. If `device` is given, the first value contains the device's
    /// `pn-purr`.
    mutating func add(_ rows: [ByteString], for device: DeviceID?) {
        guard !featureCaps.isEmpty else { return (featureCaps, purr) = (rows, device) }
        for row in rows where !featureCaps.contains(row) { featureCaps.append(row) }
    }
}

/// Writes the content of the 200 to a REGISTER (RFC 3261 section 10.3 step 8).
extension BindingTable {
    /// Appends the Contact, Path, Supported, Require, Flow-Timer, Feature-Caps and Date header fields of the 200 to a
    /// REGISTER.
    ///
    /// Devices that are known only from HTTP reports are omitted, because they are no contacts in SIP.
    ///
    /// - Parameters:
    ///   - aor: the AOR whose contacts are listed.
    ///   - announcement: the values of the 200 without the contacts.
    ///   - refresh: the refresh that was just applied; `nil` if a binding has changed since the decision about the
    ///     refresh.
    ///   - date: the header field Date.
    ///   - number: the number of the 200; each 200 in this run of the daemon has another number.
    ///   - now: the present time, by both clocks.
    ///   - out: the message to which the header fields are appended.
    ///   - seal: encrypts a name that only the daemon can read, and appends the result.
    package func appendOKFields(
        for aor: AddressOfRecord, _ announcement: RegisterAnnouncement, after refresh: ContactRefresh? = nil,
        date: AddedField, number: UInt32, now: Moment, to out: inout ByteSink,
        seal: (SealedName, inout ByteSink) -> Void
    ) {
        var slot = refresh?.first ?? firstSlot(of: aor) ?? Self.noSlot
        while slot != Self.noSlot {
            if isInForce(self[slot], now: now.instant), !self[slot].marks.contains(.isUnreachable) {
                let isEchoed = announcement.echoed.contains(self[slot].id)
                out.append("Contact: ")
                let start = out.count
                appendContact(slot: slot, isEchoed: isEchoed, now: now.instant, to: &out)
                if isEchoed, announcement.wantsGRUU {
                    appendGRUUs(slot: slot, aor, contact: start..<out.count, number, to: &out, seal)
                }
                out.append("\r\n")
            }
            slot = self[slot].next
        }
        if !announcement.path.isEmpty {
            for value in announcement.path { out.append("Path", value) }
            out.append("Supported: path\r\n")
        }
        if announcement.isOutbound { out.append("Require: outbound\r\n") }
        if let seconds = announcement.flowTimer {
            out.append("Flow-Timer: ")
            out.append(decimal: seconds)
            out.append("\r\n")
        }
        for (index, value) in announcement.featureCaps.enumerated() {
            guard index == 0, let device = announcement.purr else {
                out.append("Feature-Caps", value)
                continue
            }
            out.append("Feature-Caps: ")
            out.append(value)
            out.append(";+sip.pnspurr=\"")
            seal(.purr(device, answer: number), &out)
            out.append("\"\r\n")
        }
        if let nonce = announcement.nextNonce {
            out.append("Authentication-Info: nextnonce=\"")
            out.append(nonce)
            out.append("\"\r\n")
        }
        out.append(date)
    }

    /// Appends the GRUUs of a device to its contact (RFC 5627 section 5.2). The device's instance is read from the
    /// contact in `out`.
    private func appendGRUUs(
        slot: UInt32, _ aor: AddressOfRecord, contact: Range<Int>, _ number: UInt32, to out: inout ByteSink,
        _ seal: (SealedName, inout ByteSink) -> Void
    ) {
        guard let instance = out.withBytes(contact, { GRUU.instance(in: $0) }) ?? nil else { return }
        let place = contact.lowerBound + instance.lowerBound..<contact.lowerBound + instance.upperBound
        GRUU.appendPublic(of: aor, instanceAt: place, to: &out)
        GRUU.appendTemporary(at: aor.host, to: &out) { out in
            seal(.temporaryGRUU(self[slot].id, callID: callIDNumber(at: slot), answer: number), &out)
        }
    }

    /// Appends one contact with its remaining lifetime in seconds.
    ///
    /// A device gets its own push parameters unchanged (rule P7). The tokens of the user's other devices are omitted,
    /// because anybody with a token can wake its device.
    private func appendContact(slot: UInt32, isEchoed: Bool, now: Instant, to out: inout ByteSink) {
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
        // A contact with push token stays after its granted expiry (reading A8). The remaining lifetime is at least one
        // second, because 0 would mean a removed contact.
        out.append(decimal: max(1, now.seconds(until: self[slot].freshUntil)))
    }
}
