package import Addressing
import Bytes
import Collections
import PushDelivery
package import SIPGrammar
package import Timekeeping

/// Decides about REGISTER requests by RFC 3261 section 10.3, RFC 8599 section 5.6.1 and the registration rules of
/// ECSS-10.
///
/// The engine has already checked domain, Require and credentials (steps 1 to 5 of section 10.3).
package struct RegisterProcessor: Sendable {
    package let settings: RegistrarSettings
    private let lifetime: ContactLifetime
    private let featureCaps: FeatureCaps

    package init(settings: RegistrarSettings) {
        self.settings = settings
        lifetime = ContactLifetime(settings)
        featureCaps = FeatureCaps(settings)
    }

    /// Decides about a REGISTER without changing bindings. Later requests to the registered contacts are sent on
    /// `flow`. The refreshed binding keeps the nonce in the parameter `use`.
    package func plan(
        _ request: SIPRequest, for aor: AddressOfRecord, on flow: Flow, using use: NonceUse? = nil,
        in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision {
        let decision = plan(request, for: aor, on: flow, in: table, now: now)
        guard let use else { return decision }
        return keep(use, of: request, for: aor, on: flow, after: decision, in: table, now: now)
    }

    private func plan(
        _ request: SIPRequest, for aor: AddressOfRecord, on flow: Flow, in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision {
        if let decision = refresh(request, for: aor, on: flow, in: table, now: now) { return decision }

        let plan = RegisterPlan(aor: aor)
        plan.announcement.path = request.frame.values(of: .path)
        plan.announcement.wantsGRUU = request.supports("gruu")
        let stored = StoredContact.all(of: aor, in: table, settings: settings, now: now.instant)
        switch order(of: request, among: stored, now: now.instant) {
        case .late:
            // If the CSeq is too low, the REGISTER was replayed, or a later REGISTER has overtaken it. RFC 3261 section
            // 10.3 step 7 requires a 500 in this case.
            return .rejected(.serverError, [])
        case .repeated:
            plan.announcement.echoed = ShortList(stored.lazy.filter { $0.callID == request.callID }.map(\.id))
            var registration = ContactRegistration(
                request: request, flow: flow, stored: stored, enabled: table.enabled, settings: settings,
                lifetime: lifetime, featureCaps: featureCaps, now: now)
            registration.announceAgain(plan)
            plan.facts = [.retransmission]
            return .accepted(plan)
        case .new: break
        }
        if request.contactIsStar { return removeAll(stored, request, plan) }
        if request.contacts.isEmpty { return .accepted(plan) }
        var registration = ContactRegistration(
            request: request, flow: flow, stored: stored, enabled: table.enabled, settings: settings,
            lifetime: lifetime,
            featureCaps: featureCaps, now: now)
        return registration.decide(plan, firstNewID: table.nextID)
    }

    // MARK: The common case

    /// The decision about a REGISTER that only refreshes one contact with the same text, flow and Call-ID; `nil` for
    /// any other REGISTER.
    ///
    /// This check is fast, because nearly all REGISTERs only refresh a contact. ``plan(_:for:on:in:now:)`` processes
    /// REGISTERs that do more than refresh one contact.
    private func refresh(
        _ request: SIPRequest, for aor: AddressOfRecord, on flow: Flow, in table: borrowing BindingTable, now: Moment
    ) -> RegisterDecision? {
        let expires = lifetime.asked(byContact: nil, byRequest: request.expires)
        guard request.contacts.count == 1, !request.contactIsStar, request.path.isEmpty,
            expires >= lifetime.minimum(isPush: true), let contact = request.frame.firstValue(of: .contact),
            let first = table.firstSlot(of: aor), !request.frame.contains(.featureCaps)
        else { return nil }

        var (slot, refreshed) = (first, nil as UInt32?)
        while slot != BindingTable.noSlot {
            // If several contacts have the same Call-ID, each contact's own CSeq decides the order of requests.
            let hasSameCallID = table.has(callID: request.callID, at: slot)
            if hasSameCallID, table[slot].cseq >= request.cseq.number { return nil }
            if hasSameCallID, table.has(contact: contact, at: slot) { refreshed = slot }
            slot = table[slot].next
        }
        guard let refreshed else { return nil }
        let binding = table[refreshed]
        let isPush = table.enabled.contains(number: binding.provider)
        if binding.marks.contains(.isFlow), OutboundSupport(request) != .applies { return nil }
        guard table.flow(at: refreshed) == flow, binding.pathLength == 0, !binding.marks.contains(.needsReview),
            isPush || binding.provider == 0, table.isInForce(binding, now: now.instant)
        else { return nil }

        let granted = lifetime.granted(expires)
        let refresh = ContactRefresh(
            id: binding.id, slot: refreshed, first: first, cseq: request.cseq.number, granted: granted,
            freshUntil: now.instant.adding(seconds: granted), registeredAt: now.date, provider: binding.provider,
            refreshesItself: binding.marks.contains(.refreshesItself), isOutbound: binding.marks.contains(.isFlow),
            wantsGRUU: request.supports("gruu"))
        if isPush, table.unconfirmed.isEmpty || !table.unconfirmed.contains(binding.id) { return .refreshed(refresh) }

        return .accepted(plan(refresh, binding.nonce, of: request, contact, for: aor, on: flow, now: now))
    }

    /// The changes of a refresh that the store must write before the 200 is sent.
    func plan(
        _ refresh: ContactRefresh, _ nonce: KeptNonce, of request: SIPRequest, _ contact: ByteString,
        for aor: AddressOfRecord, on flow: Flow, now: Moment
    ) -> RegisterPlan {
        let plan = RegisterPlan(aor: aor)
        plan.refreshed = ShortList(refresh.id)
        plan.announcement = announcement(of: refresh)
        plan.refresh = refresh
        plan.persist = [
            .upsert(
                StoredBinding(
                    id: refresh.id, aor: aor, contact: contact, callID: request.callID, cseq: request.cseq.number,
                    path: [], flow: flow, granted: refresh.granted,
                    freshUntil: now.date + .seconds(Int64(refresh.granted)), registeredAt: now.date,
                    isPush: refresh.provider != 0, userAgent: UserAgent.said(in: request),
                    nonce: nonce))
        ]
        return plan
    }

    /// The values in the 200 to a refresh, without the contacts.
    package func announcement(of refresh: ContactRefresh) -> RegisterAnnouncement {
        var announcement = RegisterAnnouncement()
        announcement.echoed = ShortList(refresh.id)
        announcement.wantsGRUU = refresh.wantsGRUU
        if refresh.isOutbound { announcement.addFlow(settings) }
        guard refresh.provider != 0 else { return announcement }
        announcement.add(
            featureCaps.row(of: refresh.provider, refreshesItself: refresh.refreshesItself),
            for: settings.announcesPURR ? refresh.id : nil)
        return announcement
    }

    // MARK: Order

    private enum Order {
        case new, repeated, late
    }

    /// Compares the CSeq of a REGISTER with all bindings that have its Call-ID, even bindings that the REGISTER does
    /// not name. An overtaken REGISTER must not restore a contact that the device has left.
    ///
    /// Bindings after their granted expiry are ignored. Otherwise an old binding would exclude a client that starts
    /// again with a low CSeq and the old Call-ID.
    private func order(of request: SIPRequest, among stored: [StoredContact], now: Instant) -> Order {
        var order = Order.new
        let flow = request.contacts.first.flatMap(RegistrationFlow.init)
        for contact in stored where contact.freshUntil > now && contact.callID == request.callID {
            // The CSeq numbers of two flows of one device are not compared, because their REGISTERs can overtake each
            // other.
            if let flow, let other = contact.flow, other.number != flow.number { continue }
            if request.cseq.number < contact.cseq { return .late }
            if request.cseq.number == contact.cseq { order = .repeated }
        }
        return order
    }

    /// Handles a REGISTER with `Contact: *` (RFC 3261 section 10.2.2), which must have `Expires: 0` and no further
    /// Contact.
    private func removeAll(
        _ stored: [StoredContact], _ request: SIPRequest, _ plan: RegisterPlan
    ) -> RegisterDecision {
        let values = request.frame.fields.count { $0.name == .contact }
        guard request.expires == 0, request.contacts.isEmpty, values <= 1 else { return .rejected(.badRequest, []) }
        for contact in stored {
            plan.remove(contact.id)
            plan.facts.append(.unregistered(contact.id))
        }
        return .accepted(plan)
    }
}

extension RegisterPlan {
    func remove(_ id: DeviceID) {
        removed.append(id)
        persist.append(.delete(id))
    }
}
