package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar
import Telemetry
package import Timekeeping

/// What operators ask and order while the daemon runs.
extension ProxyEngine {
    /// One INVITE that is being offered to a user.
    package struct HeldCall: Sendable {
        /// For ``callDismissed(_:with:now:)`` and for the next page; later calls have higher ones.
        package let id: UInt64
        package let callRef: CallRef
        package let aor: AddressOfRecord
        package let callID: ByteString
        package let receivedAt: UnixTime
        /// Devices that are waited for, and devices that have the INVITE.
        package let sleeping, ringing: [DeviceID]
    }

    /// All calls that wait or ring, oldest first.
    package var heldCalls: [HeldCall] { heldCalls(after: 0, limit: .max).calls }

    /// Some of the calls that wait or ring, oldest first. There may be hundreds of thousands: one page reads the numbers of
    /// all, and no more of them than it shows.
    ///
    /// - Parameters:
    ///   - id: the `next` of the page before.
    ///   - limit: calls on a page; it may show fewer although there are more.
    /// - Returns: the calls, and where the next page begins; `nil` when this was the last.
    package func heldCalls(after id: UInt64, limit: Int) -> (calls: [HeldCall], next: UInt64?) {
        // The lowest numbers beyond `id`, in their order.
        var page: [UInt64] = []
        if limit >= forks.count {
            page = forks.keys.map(\.number).filter { $0 > id }.sorted()
        } else {
            // Twice the page is gathered before the upper half goes: a millisecond for 200,000 calls.
            var last = UInt64.max
            for number in forks.keys.lazy.map(\.number) where number > id && number < last {
                page.append(number)
                guard page.count >= 2 * limit else { continue }
                page.sort()
                page.removeLast(page.count - limit)
                last = page.last ?? last
            }
            page.sort()
            page.removeLast(max(0, page.count - limit))
        }
        let calls = page.compactMap { number in forks[ForkID(number)].flatMap { HeldCall(number, $0) } }
        return (calls, page.count == limit ? page.last : nil)
    }

    /// The same for one user, or one Call-ID.
    package func heldCalls(of aor: AddressOfRecord?, orOf callID: ByteString) -> [HeldCall] {
        offers.filter { $0.key.aor == aor || $0.key.callID == callID }
            .compactMap { _, fork in forks[fork].flatMap { HeldCall(fork.number, $0) } }
            .sorted { $0.id < $1.id }
    }

    /// What an operator means by `text`: the number of a call that waits or rings, its reference, or its Call-ID.
    ///
    /// - Returns: one call; several when a Call-ID is being offered to several users.
    package func heldCalls(named text: String) -> [HeldCall] {
        if let id = UInt64(text), let call = forks[ForkID(id)].flatMap({ HeldCall(id, $0) }) { return [call] }
        let (callID, ref) = (ByteString(text), CallRef(text))
        return offers.compactMap { key, fork -> HeldCall? in
            guard let context = forks[fork], key.callID == callID || (ref != nil && context.call?.ref == ref)
            else { return nil }
            return HeldCall(fork.number, context)
        }.sorted { $0.id < $1.id }
    }

    /// An operator ends a call that waits or rings. It is a missed call for the devices that have not heard of it.
    ///
    /// - Parameters:
    ///   - id: see ``HeldCall/id``.
    ///   - status: for the caller; 480, 486, 600 or 603.
    ///   - now: both clocks.
    /// - Returns: whether there was such a call.
    package func callDismissed(_ id: UInt64, with status: Status, now: Moment) -> Bool {
        let fork = ForkID(id)
        guard let context = forks[fork], HeldCall(id, context) != nil else { return false }
        change(fork, now: now) { $0.dismissed(with: status) }
        settle(now: now)
        return true
    }

    /// The devices of a user as a call would find them.
    package func targets(of aor: AddressOfRecord, now: Moment) -> [ForkTarget] {
        bindings.forkTargets(for: aor, now: now.instant)
    }

    /// Providers that have credentials, switched on or not.
    package var configuredProviders: Set<PushProvider> { settings.configuredProviders }

    /// A provider was switched off or on (R8c, R9). The switch itself is written by whoever calls this, before the call.
    package func providerSwitched(_ provider: PushProvider, on isOn: Bool, now: Moment) {
        guard settings.configuredProviders.contains(provider), enabledProviders.contains(provider) != isOn else {
            return
        }
        log.notice(
            "push provider switched", [.provider: .text(provider.rawValue), .outcome: .text(isOn ? "on" : "off")])
        if isOn {
            enabledProviders.insert(provider)
            bindings.providerEnabled(provider)
            return
        }
        enabledProviders.remove(provider)
        let ended = bindings.providerDisabled(provider, now: now.instant)
        if !ended.isEmpty { act(.record(ended.map { .binding(.delete($0.id)) })) }
        for binding in ended { deviceRemoved(binding.id, of: binding.aor, because: .providerOff, now: now) }
        settle(now: now)
    }

    /// Users are written by whoever calls this, before the call.
    package func userAdded(_ user: DigestUser) { users.add(user) }

    package func userRemoved(name: ByteString, realm: ByteString) { users.remove(name: name, realm: realm) }

    /// Takes the settings that may change while running; the caller checked that the others are the same.
    package func settingsChanged(_ changed: ProxySettings) {
        if settings.call.ringLiveFlowWithin != changed.call.ringLiveFlowWithin {
            life = changed.call.ringLiveFlowWithin > .zero ? FlowLife(span: changed.call.ringLiveFlowWithin) : nil
        }
        settings = changed
        deviceLimit.perMinute = changed.call.pushesPerDevice
        callerLimit.perMinute = changed.call.pushesPerCaller
        notificationLimit.perMinute = changed.notificationsPerDevice
    }
}

extension ProxyEngine.HeldCall {
    /// `nil` for what is no call to a user of ours, or is over.
    init?(_ id: UInt64, _ context: ForkContext) {
        guard let call = context.call, context.fork.phase == .proceeding else { return nil }
        let branches = context.fork.branches
        self.init(
            id: id, callRef: call.ref, aor: call.aor, callID: call.key.callID, receivedAt: call.receivedAt,
            sleeping: branches.filter(\.isSleeping).compactMap(\.device),
            ringing: branches.filter { !$0.isSleeping && !$0.isEnded }.compactMap { $0.contact ?? $0.device })
    }
}
