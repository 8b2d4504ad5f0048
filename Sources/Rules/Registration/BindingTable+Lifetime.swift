package import Addressing
package import Bytes
package import PushDelivery
package import Timekeeping

/// Removes bindings that have expired or whose provider is switched off, and restores bindings after a restart.
extension BindingTable {
    /// A removed binding's device, and the user of the device.
    package struct Ended: Hashable, Sendable {
        package let id: DeviceID
        package let aor: AddressOfRecord
        /// Whether the binding was one of several flows of a device, which keeps its id.
        package let isFurtherFlow: Bool
        /// The Path values of the binding's last REGISTER, topmost first.
        package let path: [ByteString]
        /// The time of the binding's last REGISTER that this table knows.
        package let registeredAt: UnixTime
    }

    func ended(at slot: UInt32) -> Ended {
        let id = self[slot].id
        let path = self[slot].pathLength > 0 ? binding(at: slot).path : []
        return Ended(
            id: id, aor: aor(at: slot), isFurtherFlow: device(of: id) != id, path: path,
            registeredAt: self[slot].registeredAt)
    }

    /// Removes bindings without push token whose granted expiry is over. ``removeExpired(limit:now:)`` examines at most
    /// `limit` expiry times; ``nextExpiry`` shows whether more are due.
    package mutating func removeExpired(limit: Int, now: Instant) -> [Ended] {
        var ended: [Ended] = []
        for _ in 0..<limit {
            guard let slot = expiry.popExpired(now: now) else { break }
            if self[slot].freshUntil > now {
                // A binding that was refreshed after its expiry time was set gets a new expiry time.
                scheduleExpiry(of: slot, at: self[slot].freshUntil)
            } else if self[slot].marks.contains(.isBusy) {
                scheduleExpiry(of: slot, at: now + .seconds(1))
            } else {
                ended.append(self.ended(at: slot))
                remove(slot: slot)
            }
        }
        return ended
    }

    /// How many contacts are removed or lose their pushes when a provider is switched off.
    package struct SwitchOff: Hashable, Sendable {
        /// The number of contacts that are removed, because only a push could reach the device.
        package var ending = 0
        /// The number of contacts that get no more pushes, and stay until their granted expiry.
        package var ordinary = 0
    }

    /// Predicts the effects that ``providerDisabled(_:now:)`` would have now. ``switchOff(of:now:)`` examines every
    /// binding of the table.
    package func switchOff(of provider: PushProvider, now: Instant) -> SwitchOff {
        var result = SwitchOff()
        guard enabled.contains(provider) else { return result }
        for slot in slots where self[slot].provider == provider.number && !self[slot].isVacant {
            if endsWithProvider(slot, now: now) { result.ending += 1 } else { result.ordinary += 1 }
        }
        return result
    }

    private func endsWithProvider(_ slot: UInt32, now: Instant) -> Bool {
        self[slot].freshUntil <= now && !self[slot].marks.contains(.isBusy)
    }

    /// Switches a push provider off, and ends the contacts that need the provider (rules R8c, R9).
    ///
    /// A contact after its granted expiry is removed immediately when its provider is switched off. A contact before
    /// its granted expiry stays without pushes, because its device may be online. ``providerDisabled(_:now:)`` examines
    /// every binding of the table. When a provider is switched off, only the rows of removed bindings change in the
    /// store.
    package mutating func providerDisabled(_ provider: PushProvider, now: Instant) -> [Ended] {
        guard enabled.contains(provider) else { return [] }
        enabled.set(provider, on: false)
        var ended: [Ended] = []
        for slot in slots where self[slot].provider == provider.number && !self[slot].isVacant {
            if endsWithProvider(slot, now: now) {
                ended.append(self.ended(at: slot))
                remove(slot: slot)
            } else {
                scheduleExpiry(of: slot)
            }
        }
        return ended
    }

    /// Switches a push provider on, so that its remaining contacts get pushes again.
    package mutating func providerEnabled(_ provider: PushProvider) {
        guard !enabled.contains(provider) else { return }
        enabled.set(provider, on: true)
        for slot in slots where self[slot].provider == provider.number && !self[slot].isVacant {
            scheduleExpiry(of: slot)
        }
    }

    /// The result of restoring a binding from the store.
    package enum Restored: Hashable, Sendable {
        /// The binding has expired or cannot be read, so its row must be deleted from the store.
        case dropped
        case kept
        /// The binding was restored, but the settings no longer accept its push token, so the daemon does not wake the
        /// device.
        case unfit(TokenProblem)
    }

    /// Restores a binding from its row in the store when the daemon starts. With `keepsExpired`, the table also gets an
    /// expired binding, and the next ``removeExpired(limit:now:)`` removes it.
    package mutating func restore(
        _ row: StoredBinding, settings: RegistrarSettings, keepsExpired: Bool = false, now: Moment
    ) -> Restored {
        guard row.id.rawValue > 0, slot(of: row.id) == nil, let contact = RestoredContact(row, settings: settings)
        else { return .dropped }
        let content = contact.content(of: row, on: row.flow.closed, now: now)
        guard enabled.contains(number: content.provider) || now.instant < content.freshUntil || keepsExpired,
            let record = makeRecord(row.id, content)
        else {
            // The id of a refused row is never used again, because a list of missed calls may still contain the id.
            noteUsed(row.id)
            noteDeparted(row.aor)
            return .dropped
        }
        insert(record, for: row.aor)
        return contact.problem.map(Restored.unfit) ?? .kept
    }
}

/// The values of a binding that are derived from its stored contact.
struct RestoredContact {
    var q: UInt16 = 1000
    var provider: UInt8 = 0
    var marks: Binding.Marks = []
    /// Why the settings do not accept the token of a contact. Such a contact is kept as a contact with push, because
    /// the settings may be wrong. Its next REGISTER is examined completely.
    var problem: TokenProblem?

    /// Reads the contact in a row of the store.
    ///
    /// - Returns: the restored binding; `nil` if the stored contact cannot be parsed.
    init?(_ row: StoredBinding, settings: RegistrarSettings) {
        if let summary = ContactSummary(row.contact) {
            if row.isPush, let token = summary.token {
                provider = token.provider.number
                problem = settings.push.problem(with: token)
            }
            if problem != nil || provider == 0 && summary.token != nil { marks.insert(.needsReview) }
            if summary.refreshesItself { marks.insert(.refreshesItself) }
            if summary.hasFlowNumber, ContactText.read(row.contact).flatMap(RegistrationFlow.init) != nil {
                marks.insert(.isFlow)
            }
            return
        }
        guard let contact = ContactText.read(row.contact) else { return nil }
        let push = PushParameters(contact: contact, settings: settings)
        if row.isPush {
            switch push {
            case .push(let token): provider = token.provider.number
            case .unsupported(let problem):
                let known = PushParameters.Triple(contact: contact).provider.flatMap { PushProvider(named: $0) }
                provider = known?.number ?? 0
                if known != nil { self.problem = problem }
            case .none, .query, .invalid: break
            }
        }
        q = contact.q
        marks = contact.marks(
            needsReview: problem != nil || provider == 0 && push != .none, isFlow: RegistrationFlow(contact) != nil)
    }
    /// The values of the row's binding.
    ///
    /// The parameter `flow` is the flow for requests to the device. The flow of a row from an earlier run or from
    /// another node is closed, because connections end with the process, and their numbers are used again.
    func content(of row: StoredBinding, on flow: Flow, now: Moment) -> Binding.Content {
        // If the wall clock was set back, the stored expiry may be too late, so the binding stays for at most the
        // granted time.
        let remaining = min(row.freshUntil - now.date, .seconds(Int64(row.granted)))
        return Binding.Content(
            aor: row.aor, contact: row.contact, callID: row.callID, path: row.path, flow: flow, cseq: row.cseq,
            granted: row.granted, freshUntil: now.instant + remaining, registeredAt: row.registeredAt, q: q,
            provider: provider, marks: marks,
            nonce: KeptNonce(name: row.nonce.name, count: row.nonce.stored, stored: row.nonce.stored))
    }
}
