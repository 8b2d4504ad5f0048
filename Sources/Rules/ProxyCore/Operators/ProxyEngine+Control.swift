package import Addressing
package import Bytes
package import Collections
package import PushDelivery
package import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
package import Timekeeping

/// What operators ask and order while the daemon runs.
extension ProxyEngine {
    /// All calls that wait or ring, oldest first.
    package var heldCalls: [StoredCall] { heldCalls(after: .beginning, limit: .max).elements }

    /// Some of the calls that wait or ring, oldest first. There may be hundreds of thousands: one page reads the numbers of
    /// all, and no more of them than it shows.
    ///
    /// - Parameters:
    ///   - cursor: the `next` of the page before.
    ///   - limit: calls on a page; it may show fewer although there are more.
    /// - Returns: the page.
    package func heldCalls(after cursor: PageCursor, limit: Int) -> Page<StoredCall> {
        let page = calls.page(after: cursor.number, limit: limit)
        let last = page.count == limit ? page.last?.id.rawValue : nil
        return Page(page.compactMap(StoredCall.init), next: last.map { PageCursor($0) })
    }

    /// The calls of one user, or with one Call-ID, that wait or ring.
    package func heldCalls(of aor: AddressOfRecord?, orOf callID: ByteString) -> [StoredCall] {
        heldCalls { key, _ in key.aor == aor || key.callID == callID }
    }

    private func heldCalls(where isAsked: (OfferKey, Call) -> Bool) -> [StoredCall] {
        calls.offered(where: isAsked).compactMap(StoredCall.init).sorted { $0.id < $1.id }
    }

    /// What an operator means by `text`: the number of a call that waits or rings, its reference, or its Call-ID.
    ///
    /// - Returns: one call; several when a Call-ID is being offered to several users.
    package func heldCalls(named text: String) -> [StoredCall] {
        if let id = UInt64(text), let call = calls[ForkID(id)].flatMap(StoredCall.init) { return [call] }
        let (callID, ref) = (ByteString(text), CallRef(text))
        return heldCalls { key, call in key.callID == callID || (ref != nil && call.offer?.ref == ref) }
    }

    /// An operator ends a call that waits or rings. It is a missed call for the devices that have not heard of it.
    ///
    /// - Parameters:
    ///   - id: see ``StoredCall/id``.
    ///   - status: for the caller; 480, 486, 600 or 603.
    ///   - now: both clocks.
    /// - Returns: whether there was such a call.
    func end(_ id: UInt64, with status: Status, now: Moment) -> Bool {
        guard let call = calls[ForkID(id)], StoredCall(call) != nil else { return false }
        change(call, now: now) { $0.dismissed(with: status) }
        return true
    }

    /// INVITEs that wait for their final response, in both directions.
    package var callsUnderWay: Int { calls.shares.all.calls }

    /// The daemon is about to end: INVITEs that begin a call get 503 from now on, and all else is served.
    package func drainBegins() { admission.isDraining = true }

    /// The devices of a user as a call would find them.
    package func targets(of aor: AddressOfRecord, now: Moment) -> [ForkTarget] {
        registrar.bindings.forkTargets(for: aor, now: now.instant)
    }

    /// What the phone said that it is, when it last registered; `nil` when the store knows it by now.
    package func userAgentSaidLately(by device: DeviceID) -> ByteString? { registrar.refreshedLately.agent(of: device) }

    package var isDraining: Bool { admission.isDraining }

    /// Providers that are switched on.
    package var enabledProviders: Set<PushProvider> { registrar.enabledProviders }

    /// Providers that have credentials, switched on or not.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    /// A provider was switched off or on (R8c, R9). The switch itself is written by whoever calls this, before the call.
    func switchProvider(_ provider: PushProvider, on isOn: Bool, now: Moment) {
        guard settings.configuredProviders.contains(provider), registrar.enabledProviders.contains(provider) != isOn
        else {
            return
        }
        log.notice(
            "push provider switched", [.provider: .text(provider.rawValue), .outcome: .text(isOn ? "on" : "off")])
        if isOn {
            registrar.enabledProviders.insert(provider)
            registrar.bindings.providerEnabled(provider)
            return
        }
        registrar.enabledProviders.remove(provider)
        let ended = registrar.bindings.providerDisabled(provider, now: now.instant)
        if !ended.isEmpty { act(.record(ended.map { .binding(.delete($0.id)) })) }
        for binding in ended { deviceRemoved(binding.id, of: binding.aor, because: .providerOff, now: now) }
    }

    /// Users are written by whoever calls this, before the call.
    package func userAdded(_ user: DigestUser) { registrar.users.add(user) }

    package func userRemoved(name: ByteString, realm: ByteString) { registrar.users.remove(name: name, realm: realm) }

    /// Takes the settings that may change while running; the caller checked that the others are the same.
    package func settingsChanged(_ changed: ProxySettings) {
        if settings.call.ringLiveFlowWithin != changed.call.ringLiveFlowWithin {
            flows.watchLife(changed)
        }
        let isUpstreamChanged = settings.upstream != changed.upstream || settings.upstreamCheck != changed.upstreamCheck
        settings = changed
        if isUpstreamChanged { watchUpstream(since: .distantPast) }
        admission.limit = changed.limits.queueing
        sources.registers.changed(changed.limits)
        transactions.timers.ringLimit = changed.call.ringLimit
        calls.limits = HeldShares.Limits(changed)
        ledger.limits.changed(changed)
        ledger.buckets.settings = changed.sharedBucket
    }
}
