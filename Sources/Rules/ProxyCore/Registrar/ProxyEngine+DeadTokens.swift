import Addressing
package import Bytes
import PushDelivery
package import Registration
import Telemetry
import Timekeeping

/// What a step of the search for dead tokens found.
package struct DeadTokenFindings: Hashable, Sendable {
    /// Contacts that were dropped.
    package var dropped = 0
    /// Contacts that stay because they were registered later than their token died.
    package var newer = 0
    /// The tokens that some contact has.
    package var matched: [ByteString] = []
    /// Where to go on; `nil` when all was searched.
    package var next: BindingCursor?

    package init() {}
}

/// Tokens that Apple's feedback service reports as dead.
extension ProxyEngine {
    /// Its token is dead: the contact goes, the branches that wait for it end, and so do its entries in the bucket.
    func dropDevice(
        _ device: DeviceID, of aor: AddressOfRecord, _ token: PushToken?, since: UnixTime?,
        source: DeadToken.Source, now: Moment
    ) {
        counters.count(.tokenDropped)
        log.notice(
            "contact removed, its push token is dead", [.aor: .described(aor), .device: .described(device)])
        var changes = removeFlows(of: device, with: token, now: now)
        if let change = registrar.bindings.remove(device) { changes.append(.binding(change)) }
        if !changes.isEmpty {
            if let token {
                changes.append(
                    .deadToken(
                        DeadToken(token: token, since: since ?? now.date, recordedAt: now.date, source: source)))
            }
            act(.record(changes))
        }
        if ledger.buckets.unread(device, of: aor) > 0 {
            let heirs = registrar.bindings.forkTargets(for: aor, now: now.instant)
                .filter { $0.canBeWoken && $0.id != device }.map(\.id)
            ledger.passOn(from: device, to: heirs, of: aor, into: &actions)
        }
        deviceRemoved(device, of: aor, because: .tokenDead, now: now)
    }

    /// The further flows of a device whose token is dead: it was named by each of them.
    private func removeFlows(of device: DeviceID, with token: PushToken?, now: Moment) -> [EngineChange] {
        registrar.bindings.flows(of: device, now: now.instant).compactMap { flow in
            guard flow != device, registrar.bindings.pushToken(of: flow) == token else { return nil }
            return registrar.bindings.remove(flow).map { .binding($0) }
        }
    }

    /// Apple's feedback service says that these tokens are dead. There is no index by token, since nothing else needs
    /// one: all bindings are searched, in steps, so that calls go on meanwhile.
    ///
    /// - Parameters:
    ///   - dead: token in lower-case hexadecimal, and the unsigned second since which it is dead.
    ///   - cursor: where this step begins.
    ///   - limit: contacts to read in this step.
    ///   - now: both clocks.
    /// - Returns: what was found, and where the next step begins.
    func dropDeadTokens(
        _ dead: [ByteString: UInt32], from cursor: BindingCursor, limit: Int, now: Moment
    ) -> DeadTokenFindings {
        var findings = DeadTokenFindings()
        var found: [(device: BindingTable.PushDevice, second: UInt32)] = []
        var cursor = cursor
        let hasMore = registrar.bindings.forEachAppleDevice(from: &cursor, limit: limit) { device in
            for token in device.token.appleTokens {
                guard let second = dead[token] else { continue }
                findings.matched.append(token)
                found.append((device, second))
                return
            }
        }
        for (device, second) in found {
            guard FeedbackRecord.shouldDropToken(second: second, registeredAt: device.registeredAt),
                let aor = registrar.bindings.binding(device.id)?.aor
            else {
                findings.newer += 1
                continue
            }
            findings.dropped += 1
            dropDevice(
                device.id, of: aor, device.token, since: UnixTime(seconds: Int64(second)), source: .feedback, now: now)
        }
        if hasMore { findings.next = cursor }
        return findings
    }
}
