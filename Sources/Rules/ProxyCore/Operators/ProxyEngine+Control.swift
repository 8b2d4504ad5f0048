package import Addressing
package import Bytes
package import Collections
package import PushDelivery
package import Registration
import SIPGrammar
import SIPTransactions
import Telemetry
package import Timekeeping

/// Queries and commands of operators.
extension ProxyEngine {
    /// All calls that are held or ring, oldest first.
    package var heldCalls: [StoredCall] { heldCalls(after: .beginning, limit: .max).elements }

    /// One page of the calls that are held or ring, oldest first. There may be hundreds of thousands. A page reads the
    /// numbers of all calls, but only the calls that it shows in full.
    ///
    /// - Parameters:
    ///   - cursor: `next` of the previous page.
    ///   - limit: the maximum number of calls on the page. A page may have fewer although more calls follow.
    /// - Returns: the page.
    package func heldCalls(after cursor: PageCursor, limit: Int) -> Page<StoredCall> {
        let page = calls.page(after: cursor.number, limit: limit)
        let last = page.count == limit ? page.last?.id.rawValue : nil
        return Page(page.compactMap(StoredCall.init), next: last.map { PageCursor($0) })
    }

    /// The calls that are held or ring for one user, or with one Call-ID.
    package func heldCalls(of aor: AddressOfRecord?, orOf callID: ByteString) -> [StoredCall] {
        heldCalls { key, _ in key.aor == aor || key.callID == callID }
    }

    private func heldCalls(where isAsked: (UserCallKey, ProxiedRequest) -> Bool) -> [StoredCall] {
        calls.offered(where: isAsked).compactMap(StoredCall.init).sorted { $0.id < $1.id }
    }

    /// The calls that an operator names by `text`: the number of a held or ringing call, its reference, or its Call-ID.
    ///
    /// - Returns: the calls. A Call-ID may name several, if it was offered to several users.
    package func heldCalls(named text: String) -> [StoredCall] {
        if let id = UInt64(text), let call = calls[ForkID(id)].flatMap(StoredCall.init) { return [call] }
        let (callID, ref) = (ByteString(text), CallRef(text))
        return heldCalls { key, call in key.callID == callID || (ref != nil && call.userCall?.ref == ref) }
    }

    /// Ends a held or ringing call for an operator. Devices that were not notified of the call get it as a missed call.
    ///
    /// - Parameters:
    ///   - id: see ``StoredCall/id``.
    ///   - status: for the caller; 480, 486, 600 or 603.
    ///   - now: the time by both clocks.
    /// - Returns: whether the call existed.
    func end(_ id: UInt64, with status: Status, now: Moment) -> Bool {
        guard let call = calls[ForkID(id)], StoredCall(call) != nil else { return false }
        update(call, now: now) { $0.endedByOperator(with: status) }
        return true
    }

    /// The number of INVITEs without a final response, in both directions.
    package var callsUnderWay: Int { calls.shares.all.calls }

    /// The daemon is shutting down. New calls get 503 from now on; everything else is served.
    package func drainBegins() { admission.isDraining = true }

    /// The devices of a user that a call would find now.
    package func targets(of aor: AddressOfRecord, now: Moment) -> [ForkTarget] {
        registrar.bindings.forkTargets(for: aor, now: now.instant)
    }

    /// The User-Agent of a phone's last REGISTER. `nil` if the store already has that value.
    package func userAgentSaidLately(by device: DeviceID) -> ByteString? { registrar.refreshedLately.agent(of: device) }

    package var isDraining: Bool { admission.isDraining }

    /// The providers that are switched on.
    package var enabledProviders: Set<PushProvider> { registrar.enabledProviders }

    /// The providers that have credentials, switched on or off.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    /// A provider was switched off or on (R8c, R9). The caller has persisted the switch before.
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

    /// Adds a user to the directory. The caller has persisted the user before.
    package func userAdded(_ user: DigestUser) { registrar.users.add(user) }

    package func userRemoved(name: ByteString, realm: ByteString) { registrar.users.remove(name: name, realm: realm) }

    /// Applies the settings that may change at run time. The caller has checked that the other settings are unchanged.
    package func settingsChanged(_ changed: ProxySettings) {
        if settings.call.ringLiveFlowWithin != changed.call.ringLiveFlowWithin {
            flows.watchActivity(changed)
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
